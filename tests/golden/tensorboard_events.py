"""The bytes of one event as TensorBoard writes them, for tests/experiments/record_test.cpp.

pip install tensorboard
"""
import io

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

value = summary_pb2.Summary.Value(tag="loss/train", simple_value=0.25)
event = event_pb2.Event(wall_time=1.5, step=300, summary=summary_pb2.Summary(value=[value]))
file = io.BytesIO()
RecordWriter(file).write(event.SerializeToString())
print(file.getvalue().hex())
