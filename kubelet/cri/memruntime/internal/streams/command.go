package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/moby/spdystream"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	commandProtocol = "v4.channel.k8s.io"
	// reasonNonZeroExitCode and causeExitCode are those of k8s.io/apimachinery's package
	// remotecommand, which clients look for.
	reasonNonZeroExitCode = metav1.StatusReason("NonZeroExitCode")
	causeExitCode         = metav1.CauseType("ExitCode")
	// exitInterrupted is 128 and SIGINT.
	exitInterrupted = 130
	// pieceSize is the size of the pieces in which output is sent, in bytes.
	pieceSize = 32 << 10
)

// ErrInterrupted is the cause of a context that is done because the user of a terminal has
// interrupted the program.
var ErrInterrupted = errors.New("interrupted")

// Size is the size of a terminal in characters.
type Size struct{ Width, Height uint16 }

// Streams are the streams of a program. Each can be used by any number of goroutines.
type Streams struct {
	// Stdin is at its end if there is no input. It ends with the program's context.
	Stdin io.Reader
	// Stdout and Stderr discard what the client has not asked for. In a terminal they are the same.
	Stdout, Stderr io.Writer
	// TTY reports whether the streams are a terminal: input comes in lines and is echoed, and
	// Ctrl-C ends the context.
	TTY bool
	// Resize has the newest size of the terminal. It is nil without one, and never closed.
	Resize <-chan Size
}

// Want names the streams that a client has asked for.
type Want struct{ Stdin, Stdout, Stderr, TTY bool }

// Command returns the URL of a program's streams. The program must return soon after its context is
// done. The client gets the exit code or, with an error, its text. The context of a container is
// life.
func (s *Server) Command(life context.Context, want Want, program func(context.Context, Streams) (int32, error)) (string, error) {
	return s.offer(offer{protocol: commandProtocol, life: life, serve: func(ctx context.Context, c *connection) {
		c.command(ctx, want, program)
	}})
}

func (c *connection) command(ctx context.Context, want Want, program func(context.Context, Streams) (int32, error)) {
	open, err := c.await(ctx, want.count())
	if err != nil {
		c.refuseCommand(open, err)
		return
	}
	streams := Streams{Stdin: eof{}, Stdout: io.Discard, Stderr: io.Discard, TTY: want.TTY}
	var outputs []*output
	for kind, to := range map[string]*io.Writer{corev1.StreamTypeStdout: &streams.Stdout, corev1.StreamTypeStderr: &streams.Stderr} {
		if stream := open[kind]; stream != nil {
			out := &output{stream: stream}
			outputs = append(outputs, out)
			*to = out
		}
	}
	var pumps sync.WaitGroup
	defer pumps.Wait()
	pumps.Go(func() { c.refuse(ctx) })
	defer c.cancel(nil)
	if want.TTY {
		t := newTerminal(ctx, streams.Stdout, func() { c.cancel(ErrInterrupted) })
		streams.Stdout, streams.Stderr = t, t
		if stream := open[corev1.StreamTypeStdin]; stream != nil {
			streams.Stdin = t
			pumps.Go(func() { t.pump(stream) })
		}
		sizes := make(chan Size, 1)
		streams.Resize = sizes
		if stream := open[corev1.StreamTypeResize]; stream != nil {
			pumps.Go(func() { pumpSizes(sizes, stream) })
		}
	} else if stream := open[corev1.StreamTypeStdin]; stream != nil {
		in, from := io.Pipe()
		streams.Stdin = in
		defer context.AfterFunc(ctx, func() { from.Close() })()
		defer in.Close() // or the pump waits for a reader
		pumps.Go(func() {
			_, err := io.Copy(from, stream)
			from.CloseWithError(err)
		})
	}
	code, err := program(ctx, streams)
	if errors.Is(context.Cause(ctx), ErrInterrupted) {
		code = exitInterrupted
	}
	for _, out := range outputs {
		out.close()
	}
	if status := open[corev1.StreamTypeError]; status != nil {
		status.Write(statusOf(code, err)) // fails only if the client has gone
		status.Close()
	}
	for _, kind := range []string{corev1.StreamTypeStdin, corev1.StreamTypeResize} {
		if stream := open[kind]; stream != nil {
			c.reset(stream)
		}
	}
}

// refuseCommand ends the streams of a command that does not begin, and says why.
func (c *connection) refuseCommand(open map[string]*spdystream.Stream, err error) {
	status := open[corev1.StreamTypeError]
	if status == nil {
		c.close()
		return
	}
	for kind, stream := range open {
		switch kind {
		case corev1.StreamTypeStdin, corev1.StreamTypeResize:
			c.reset(stream)
		case corev1.StreamTypeStdout, corev1.StreamTypeStderr:
			stream.Close() // a client waits for the end of each
		}
	}
	status.Write(statusOf(0, err)) // fails only if the client has gone
	status.Close()
}

// refuse resets further streams until ctx is done.
func (c *connection) refuse(ctx context.Context) {
	for {
		select {
		case stream := <-c.opened:
			c.reset(stream)
		case <-ctx.Done():
			return
		}
	}
}

// count returns how many streams a client opens: those it wants, one for the status, and one for the sizes of a
// terminal.
func (w Want) count() int {
	n := 1
	for _, want := range []bool{w.Stdin, w.Stdout, w.Stderr && !w.TTY, w.TTY} {
		if want {
			n++
		}
	}
	return n
}

// kinds are the types of streams.
var kinds = []string{corev1.StreamTypeError, corev1.StreamTypeStdin, corev1.StreamTypeStdout, corev1.StreamTypeStderr, corev1.StreamTypeResize}

// await waits until the client has opened count streams, whichever they are, as Kubernetes' server does: a
// client that does not know of the terminal opens one for errors and none for sizes. A second stream of a type
// is reset, and so is an unknown one. With an error, it returns those that are open.
func (c *connection) await(ctx context.Context, count int) (map[string]*spdystream.Stream, error) {
	timer := time.NewTimer(openTimeout)
	defer timer.Stop()
	open := map[string]*spdystream.Stream{}
	for len(open) < count {
		select {
		case stream := <-c.opened:
			kind := stream.Headers().Get(corev1.StreamType)
			if !slices.Contains(kinds, kind) || open[kind] != nil {
				c.reset(stream)
				continue
			}
			open[kind] = stream
		case <-timer.C:
			return open, errors.New("timed out waiting for client to create streams")
		case <-ctx.Done():
			return open, errors.New("the container has ended")
		}
	}
	return open, nil
}

// statusOf returns the status of a command as JSON, as in version 4 of the protocol.
func statusOf(code int32, err error) []byte {
	status := metav1.Status{Status: metav1.StatusSuccess}
	switch {
	case err != nil:
		status = apierrors.NewInternalError(err).Status()
	case code != 0:
		status = metav1.Status{
			Status: metav1.StatusFailure, Reason: reasonNonZeroExitCode,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: causeExitCode, Message: fmt.Sprint(code)}}},
			Message: fmt.Sprintf("command terminated with non-zero exit code: exit code %d", code),
		}
	}
	text, err := json.Marshal(&status)
	if err != nil {
		panic(err) // a Status is always JSON
	}
	return text
}

// pumpSizes sends the newest size of a terminal until the stream ends or is not JSON.
func pumpSizes(to chan Size, from io.Reader) {
	for sizes := json.NewDecoder(from); ; {
		var size Size
		if err := sizes.Decode(&size); err != nil {
			return
		}
		select {
		case <-to: // the program has not read the last one
		default:
		}
		to <- size
	}
}

// output writes to a stream in pieces until it is closed.
type output struct {
	mu     sync.Mutex
	stream *spdystream.Stream
	closed bool
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	written := 0
	for written < len(p) {
		if o.closed {
			return written, io.ErrClosedPipe
		}
		n, err := o.stream.Write(p[written:min(len(p), written+pieceSize)])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// close ends the stream. It waits for a write in progress.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.stream.Close() // fails only if the client has gone
}

// eof is an input at its end.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
