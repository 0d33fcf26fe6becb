"""Input and output of rows: streams from arrays, data frames and files, and files of rows."""

from mercer.data.files import ChangedFileError as ChangedFileError
from mercer.data.open import open_stream as open_stream
from mercer.data.stream import Chunk as Chunk
from mercer.data.stream import Stream as Stream
from mercer.data.stream import rechunk as rechunk
from mercer.data.writers import Writer as Writer
from mercer.data.writers import open_writer as open_writer
