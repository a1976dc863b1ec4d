// Package channel frames the streams of a remote command, or of forwarded ports, in WebSocket messages: the subprotocols
// v5.channel.k8s.io, v4.channel.k8s.io and v4.base64.channel.k8s.io
// (https://kubernetes.io/docs/reference/using-api/websockets/). It does no IO of its own and keeps
// no state.
//
// A message begins with a byte for its channel, and the rest is data of the channel. In the form
// with base64 the byte is a digit, and the rest is encoded. In version 5, a message of the byte 255
// and a channel closes the channel: no data follow. No client of the older versions can end a
// command's input without ending the connection.
package channel

import (
	"encoding/base64"
	"errors"
	"io"
	"slices"
)

// The channels. A client sends Stdin and Resize, a server the others.
const (
	Stdin byte = iota
	Stdout
	Stderr
	Error  // a metav1.Status in JSON, when the command has ended
	Resize // sizes of the terminal, in JSON
	channels
)

const closeSignal = 255

// Protocol is one of the subprotocols.
type Protocol struct {
	// Name is the name of the subprotocol.
	Name string
	// Text reports whether messages are text, with data in base64.
	Text bool
	// closes reports whether there is a close signal.
	closes bool
	// channels counts the channels.
	channels byte
}

// Protocols returns the subprotocols, the best first.
func Protocols() []Protocol {
	return []Protocol{
		{Name: "v5.channel.k8s.io", closes: true, channels: channels},
		{Name: "v4.channel.k8s.io", channels: channels},
		{Name: "v4.base64.channel.k8s.io", Text: true, channels: channels},
	}
}

// Choose returns the subprotocol for a client: version 5 if the client offers it, and otherwise the first that it offers and
// that exists. It is not ok if that is one of the first version, which is not served here.
func Choose(offered []string) (p Protocol, ok bool) {
	if slices.Contains(offered, Protocols()[0].Name) {
		return Protocols()[0], true
	}
	return first(offered)
}

// first returns the first subprotocol without a close signal among those that a client offers.
func first(offered []string) (p Protocol, ok bool) {
	for _, name := range offered {
		if slices.Contains(older, name) {
			return Protocol{}, false
		}
		for _, p := range Protocols() {
			if p.Name == name && !p.closes {
				return p, true
			}
		}
	}
	return Protocol{}, false
}

// older are the subprotocols of the first version, which have no status of a command.
var older = []string{"", "channel.k8s.io", "base64.channel.k8s.io"}

// maxPorts bounds the forwarded ports of one connection: each has two channels.
const maxPorts = closeSignal / 2

// ChooseForward returns the first subprotocol that a client offers for the ports of a pod. It is ok if there is one
// that can forward that many. Port number n has the channel 2n for data and 2n+1 for an error; each begins with the port in two
// bytes, the lower one first. There is no version 5.
func ChooseForward(offered []string, ports int) (p Protocol, ok bool) {
	p, ok = first(offered)
	if !ok || ports > maxPorts {
		return Protocol{}, false
	}
	p.channels = byte(2 * ports)
	return p, true
}

// Message is a message of a client.
type Message struct {
	Channel byte
	// Close reports whether Channel is closed.
	Close bool
	// Data has the data for Channel. It is nil if there are none, and then the message has no
	// meaning unless it is a Close. Its errors are those of the message, or report wrong base64.
	Data io.Reader
}

// errClose is the error of a close signal without a channel, or of no channel.
var errClose = errors.New("a close signal must name one channel")

// Parse parses a message of a client. It reads the beginning, and [Message.Data] reads the rest. As
// in Kubernetes, an empty message and one for a channel that does not exist have no meaning.
func (p Protocol) Parse(message io.Reader) (Message, error) {
	// One byte more than a close signal shows that a message is too long for one.
	var head [3]byte
	n, err := io.ReadFull(message, head[:1])
	if n == 0 {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return Message{}, err
	}
	if p.closes && head[0] == closeSignal {
		n, err := io.ReadFull(message, head[1:])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return Message{}, err
		}
		if n != 1 || head[1] >= p.channels {
			return Message{}, errClose
		}
		return Message{Channel: head[1], Close: true}, nil
	}
	m := Message{Channel: head[0], Data: message}
	if p.Text {
		m.Channel -= '0'
		m.Data = base64.NewDecoder(base64.StdEncoding, message)
	}
	if m.Channel >= p.channels {
		return Message{}, nil
	}
	return m, nil
}

// Append appends a message with data of a channel to buffer.
func (p Protocol) Append(buffer []byte, channel byte, data []byte) []byte {
	if p.Text {
		return base64.StdEncoding.AppendEncode(append(buffer, '0'+channel), data)
	}
	return append(append(buffer, channel), data...)
}
