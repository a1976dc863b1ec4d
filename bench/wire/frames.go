package wire

import "encoding/binary"

// Frames splits the stream of a watch in protobuf into its events. Each is preceded by its length
// in four bytes, in big-endian order.
type Frames struct {
	// Event receives each event; the slice is valid until it returns.
	Event func([]byte) error

	partial []byte
}

// LengthBytes is the size of the length before each event.
const LengthBytes = 4

// Write receives the next part of the stream.
func (f *Frames) Write(data []byte) error {
	if len(f.partial) > 0 {
		f.partial = append(f.partial, data...)
		data = f.partial
	}
	for len(data) >= LengthBytes {
		end := LengthBytes + int(binary.BigEndian.Uint32(data))
		if len(data) < end {
			break
		}
		if err := f.Event(data[LengthBytes:end]); err != nil {
			return err
		}
		data = data[end:]
	}
	f.partial = append(f.partial[:0], data...)
	return nil
}
