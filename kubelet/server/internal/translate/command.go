package translate

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/moby/spdystream"
	"github.com/planekit/planekit/kubelet/server/internal/channel"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// commandProtocol is the version of the runtime's streams. Its status is that of channel.Error.
	commandProtocol = "v4.channel.k8s.io"
	// replyTimeout limits the time for the runtime to accept a stream, and replyPoll the time to
	// notice that the connection has ended meanwhile.
	replyTimeout = 30 * time.Second
	replyPoll    = 50 * time.Millisecond
	// refusalTimeout limits the write of a close frame to a client that may not read.
	refusalTimeout = time.Second
	// maxStatus limits the status of a command, in bytes.
	maxStatus = 1 << 20
)

// Streams are the streams of a command.
type Streams struct{ Stdin, Stdout, Stderr, TTY bool }

// Command connects a client to a command, or to a container that is attached to, at the runtime's
// address.
func (t *Translator) Command(w http.ResponseWriter, r *http.Request, to *url.URL, p channel.Protocol, want Streams) {
	t.connect(w, r, to, commandProtocol, p, func(c *connection, conn *spdystream.Connection) (map[byte]io.WriteCloser, carry, error) {
		status, outputs, inputs, err := c.open(conn, want)
		return inputs, func(ctx context.Context, failed error) error {
			var text []byte
			if failed == nil {
				if text, err = c.send(status, outputs); err != nil {
					return err
				}
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return c.write(channel.Error, statusOrError(text))
		}, err
	})
}

// carry sends what the streams of a connection have to the client. Failed is why they are not all open.
type carry func(ctx context.Context, failed error) error

// begin opens streams, of which it returns those that the client writes to by their channels.
type begin func(*connection, *spdystream.Connection) (map[byte]io.WriteCloser, carry, error)

// connect connects a client to the runtime's address, in the version of its streams.
func (t *Translator) connect(w http.ResponseWriter, r *http.Request, to *url.URL, version string, p channel.Protocol, open begin) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	answer, ok := t.dial(ctx, w, to, []string{version})
	if !ok {
		return
	}
	backend := answer.Body.(io.ReadWriteCloser)
	defer backend.Close()
	ws, err := t.accept(w, r, p.Name, cancel)
	if err != nil {
		t.Log.V(1).Info("handshake failed", "error", err.Error())
		return
	}
	defer ws.Close()
	defer context.AfterFunc(ctx, func() {
		backend.Close()
		ws.Close()
	})()
	c := &connection{ws: ws, protocol: p, cancel: cancel}
	if err := c.run(ctx, spdyConn{ReadWriteCloser: backend}, open); err != nil {
		t.Log.V(1).Info("stream failed", "error", err.Error())
	}
}

// connection holds a client's WebSocket and the streams of the runtime.
type connection struct {
	ws       *websocket.Conn
	protocol channel.Protocol
	cancel   func() // ends both connections

	writing sync.Mutex // held to write to ws
	streams []*spdystream.Stream
	replies sync.WaitGroup // goroutines that wait for replies
}

// run carries the streams until they or the client's connection end.
func (c *connection) run(ctx context.Context, backend spdyConn, open begin) error {
	conn, err := spdystream.NewConnection(backend, false)
	if err != nil {
		return err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn.Serve(func(s *spdystream.Stream) { s.Refuse() }) // a runtime begins no streams
	}()
	end := func() {
		backend.Close()
		for _, stream := range c.streams {
			stream.Reset() // or Serve waits for a reader of its data, and other readers for Serve
		}
	}
	defer func() {
		c.cancel()
		end()
		<-served
		c.replies.Wait()
	}()
	inputs, carry, failed := open(c, conn)
	defer context.AfterFunc(ctx, end)()
	failed = errors.Join(failed, c.awaitReplies(served))
	if failed != nil {
		inputs = nil
	}
	received := make(chan struct{})
	go func() {
		defer close(received)
		defer c.cancel()
		c.receive(inputs)
		// A message without a meaning ends the connection as its end does. This fails if it has ended.
		message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		c.ws.WriteControl(websocket.CloseMessage, message, time.Now().Add(refusalTimeout))
	}()
	defer func() {
		c.cancel()
		<-received
	}()
	if err := carry(ctx, failed); err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, finish(ctx, c.ws, received))
}

// open creates the streams of a command, in the order of Kubernetes' clients.
func (c *connection) open(conn *spdystream.Connection, want Streams) (status io.Reader, outputs map[byte]io.Reader, inputs map[byte]io.WriteCloser, err error) {
	outputs, inputs = map[byte]io.Reader{}, map[byte]io.WriteCloser{}
	for _, s := range []struct {
		number byte
		kind   string
		want   bool
	}{
		{channel.Error, corev1.StreamTypeError, true},
		{channel.Stdin, corev1.StreamTypeStdin, want.Stdin},
		{channel.Stdout, corev1.StreamTypeStdout, want.Stdout},
		{channel.Stderr, corev1.StreamTypeStderr, want.Stderr && !want.TTY},
		{channel.Resize, corev1.StreamTypeResize, want.TTY},
	} {
		if !s.want {
			continue
		}
		stream, err := c.stream(conn, http.Header{corev1.StreamType: {s.kind}})
		if err != nil {
			return nil, nil, nil, err
		}
		switch s.number {
		case channel.Error:
			status = stream
		case channel.Stdin, channel.Resize:
			inputs[s.number] = stream
		default:
			outputs[s.number] = stream
		}
	}
	return status, outputs, inputs, nil
}

// stream creates a stream.
func (c *connection) stream(conn *spdystream.Connection, headers http.Header) (*spdystream.Stream, error) {
	canonical := http.Header{}
	for name, values := range headers {
		canonical[http.CanonicalHeaderKey(name)] = values
	}
	stream, err := conn.CreateStream(canonical, nil, false)
	if err == nil {
		c.streams = append(c.streams, stream)
	}
	return stream, err
}

// awaitReplies waits until the runtime has accepted all streams.
func (c *connection) awaitReplies(served <-chan struct{}) error {
	replied := make(chan error, len(c.streams))
	for _, stream := range c.streams {
		c.replies.Go(func() { replied <- c.awaitReply(stream, served) })
	}
	var failed error
	for range c.streams {
		failed = errors.Join(failed, <-replied)
	}
	return failed
}

// awaitReply waits for the reply to a stream. It does not return before Serve has ended or handled
// the reply, because Serve hands a refusal to a waiter.
func (c *connection) awaitReply(stream *spdystream.Stream, served <-chan struct{}) error {
	for begun := time.Now(); ; {
		if err := stream.WaitTimeout(replyPoll); !errors.Is(err, spdystream.ErrTimeout) {
			return err
		}
		select {
		case <-served:
			return errors.New("the runtime ended the connection before it accepted all streams")
		default:
		}
		if time.Since(begun) > replyTimeout {
			c.cancel()
		}
	}
}

// send sends the outputs of the command until all have ended, and returns its status.
func (c *connection) send(status io.Reader, outputs map[byte]io.Reader) ([]byte, error) {
	first := channel.Error
	for number := range outputs {
		first = min(first, number)
	}
	if err := c.write(first, nil); err != nil { // as in Kubernetes: the connection is there
		return nil, err
	}
	if err := c.sendAll(outputs); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(status, maxStatus))
}

// sendAll sends what the client reads, by its channels, until all have ended.
func (c *connection) sendAll(outputs map[byte]io.Reader) error {
	ends := make(chan error, len(outputs))
	for number, from := range outputs {
		go func() {
			err := c.sendOutput(number, from)
			if err != nil {
				c.cancel() // which ends the others
			}
			ends <- err
		}()
	}
	var failed error
	for range outputs {
		failed = errors.Join(failed, <-ends)
	}
	return failed
}

func (c *connection) sendOutput(number byte, from io.Reader) error {
	buffer := make([]byte, pieceSize)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if err := c.write(number, buffer[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// write sends one message.
func (c *connection) write(number byte, data []byte) error {
	kind := websocket.BinaryMessage
	if c.protocol.Text {
		kind = websocket.TextMessage
	}
	message := c.protocol.Append(make([]byte, 0, len(data)+1), number, data)
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.ws.WriteMessage(kind, message)
}

// receive copies the client's messages to the inputs of the command until the client's connection
// ends. Data for what is not open are discarded, as in Kubernetes.
func (c *connection) receive(inputs map[byte]io.WriteCloser) error {
	buffer := make([]byte, pieceSize)
	for {
		_, message, err := c.ws.NextReader()
		if err != nil {
			return err
		}
		m, err := c.protocol.Parse(message)
		if err != nil {
			return err
		}
		to := inputs[m.Channel]
		switch {
		case to == nil || m.Data == nil && !m.Close:
		case m.Close:
			to.Close() // fails only if the runtime has ended the stream
			delete(inputs, m.Channel)
		default:
			input := &input{to: to}
			if _, err := io.CopyBuffer(input, m.Data, buffer); err != nil && input.err == nil {
				return err
			}
			if input.err != nil { // the command may still have output
				delete(inputs, m.Channel)
			}
		}
	}
}

// input records the error of a write separately from that of a read.
type input struct {
	to  io.Writer
	err error
}

func (i *input) Write(p []byte) (int, error) {
	n, err := i.to.Write(p)
	i.err = err
	return n, err
}

// statusOrError returns the status of a command, or that of an error if the runtime gave none:
// clients take no status for success.
func statusOrError(text []byte) []byte {
	var status metav1.Status
	if err := json.Unmarshal(text, &status); err == nil && (status.Status == metav1.StatusSuccess || status.Status == metav1.StatusFailure) {
		return text
	}
	status = apierrors.NewInternalError(errors.New("the runtime ended the stream without a status")).Status()
	text, err := json.Marshal(&status)
	if err != nil {
		panic(err) // a Status is always JSON
	}
	return text
}

// spdyConn is a connection of a package that wants addresses and deadlines but uses none.
type spdyConn struct {
	io.ReadWriteCloser
	net.Conn // nil
}

func (c spdyConn) Read(p []byte) (int, error)  { return c.ReadWriteCloser.Read(p) }
func (c spdyConn) Write(p []byte) (int, error) { return c.ReadWriteCloser.Write(p) }

// Close closes the connection. It may be called again without an error, for which spdystream would
// wait for a reader.
func (c spdyConn) Close() error {
	c.ReadWriteCloser.Close()
	return nil
}
