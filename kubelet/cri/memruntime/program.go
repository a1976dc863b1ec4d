package memruntime

import (
	"bytes"
	"context"
	"io"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime/internal/streams"
)

// Streams are the streams of a program: input, outputs, and the size of a terminal.
type Streams = streams.Streams

// Size is the size of a terminal in characters.
type Size = streams.Size

// A Program is a function in place of a process: the main program of a container, or a command that
// is executed in one. It returns its exit code. It must return soon after ctx is done and soon after
// a read or write has failed: ctx is done when the container ends, when a command has taken too long
// or its client has gone, and when the user of a terminal presses Ctrl-C.
type Program func(ctx context.Context, s Streams) (exitCode int32)

// process is the main program of a container, and the clients that are attached to it.
type process struct {
	container *container
	stdin     *inlet
	drained   chan struct{} // closed when all output has been written

	mu sync.Mutex
	// mu guards the field below.
	clients map[*Streams]struct{}
}

// newProcess returns the process of a container that starts.
func newProcess(c *container) *process {
	p := &process{container: c, stdin: newInlet(c.life.Done()), drained: make(chan struct{}), clients: map[*Streams]struct{}{}}
	if !c.config.GetStdin() {
		p.stdin.end()
	}
	return p
}

// run runs the program and returns its exit code when its output is in the log.
func (p *process) run(program Program) int32 {
	defer close(p.drained)
	stdout := &outlet{process: p, name: "stdout", client: func(s *Streams) io.Writer { return s.Stdout }}
	stderr := &outlet{process: p, name: "stderr", client: func(s *Streams) io.Writer { return s.Stderr }}
	s := Streams{Stdin: p.stdin, Stdout: stdout, Stderr: stderr, TTY: p.container.config.GetTty()}
	if s.TTY {
		s.Stderr = stdout
	}
	code := program(p.container.life, s)
	stdout.flush()
	stderr.flush()
	return code
}

// idle takes all input, as the terminal of a program that does not read does. It is run in place of
// a program if there is none.
func (p *process) idle() {
	io.Copy(io.Discard, p.stdin) // ends with the container
}

// connect gives a client the outputs from now on, until it calls leave.
func (p *process) connect(s *Streams) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[s] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.clients, s)
	}
}

// feed copies a client's input to the program. It closes detached if the client shall not wait for
// the end of the program.
func (p *process) feed(ctx context.Context, from io.Reader, detached chan<- struct{}) {
	io.Copy(&feeder{p, ctx.Done()}, from) // fails when one of both has ended
	if config := p.container.config; config.GetStdinOnce() && !config.GetTty() {
		p.stdin.end()
	} else {
		close(detached)
	}
}

// feeder writes to a program until a client has gone.
type feeder struct {
	to   *process
	gone <-chan struct{}
}

func (f *feeder) Write(data []byte) (int, error) {
	select {
	case f.to.stdin.chunks <- bytes.Clone(data):
		return len(data), nil
	case <-f.to.stdin.ended:
	case <-f.to.drained:
	case <-f.gone:
	}
	return 0, io.ErrClosedPipe
}

// inlet is the input of a process, which several clients may write, one after the other.
type inlet struct {
	chunks chan []byte
	ended  chan struct{} // closed at the end
	once   sync.Once     // closes it
	life   <-chan struct{}

	mu sync.Mutex
	// mu guards the field below.
	rest []byte // of a chunk that is read
}

func newInlet(life <-chan struct{}) *inlet {
	return &inlet{chunks: make(chan []byte), ended: make(chan struct{}), life: life}
}

func (i *inlet) end() { i.once.Do(func() { close(i.ended) }) }

func (i *inlet) Read(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.rest) == 0 {
		select {
		case i.rest = <-i.chunks:
		case <-i.ended:
			return 0, io.EOF
		case <-i.life:
			return 0, io.EOF
		}
	}
	n := copy(p, i.rest)
	i.rest = i.rest[n:]
	return n, nil
}

// outlet is an output of a process: the log and the attached clients get it.
type outlet struct {
	process *process
	name    string
	client  func(*Streams) io.Writer

	mu sync.Mutex
	// mu guards the field below.
	line []byte // that is not complete
}

// Write implements io.Writer. It fails when the container has ended.
func (o *outlet) Write(data []byte) (int, error) {
	if o.process.container.life.Err() != nil {
		return 0, io.ErrClosedPipe
	}
	if err := o.log(data); err != nil {
		return 0, err
	}
	o.process.mu.Lock()
	var clients []io.Writer
	for s := range o.process.clients {
		clients = append(clients, o.client(s))
	}
	o.process.mu.Unlock()
	for _, to := range clients {
		to.Write(data) // fails if the client has gone
	}
	return len(data), nil
}

// log writes the complete lines, and keeps the rest.
func (o *outlet) log(data []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.line = append(o.line, data...)
	var entries []byte
	for {
		end := bytes.IndexByte(o.line, '\n')
		switch {
		case end >= 0:
			entries = appendLine(entries, o.name, o.line[:end])
			o.line = o.line[end+1:]
		case len(o.line) > maxLine:
			entries = appendEntry(entries, o.name, "P", o.line[:maxLine])
			o.line = o.line[maxLine:]
		default:
			return o.process.container.appendLog(entries)
		}
	}
}

// flush writes a line without an end.
func (o *outlet) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.line) > 0 {
		o.process.container.appendLog(appendLine(nil, o.name, o.line)) // the program has ended, so that no one can act on an error
	}
}

// commandOf returns the command line of a container's main program. Images have none of their own.
func commandOf(c *runtimeapi.ContainerConfig) []string {
	return append(append([]string{}, c.GetCommand()...), c.GetArgs()...)
}
