package upgraded

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Limits limits the life of a connection. Zero fields have the defaults.
type Limits struct {
	// Handshake is the time for a SPDY client to open its first stream or to send its first ping.
	// Zero means 30 seconds, the time that runtimes allow for all streams.
	Handshake time.Duration
	// Unheard is the time without any bytes before the client has sent its first. Zero means 10
	// minutes.
	Unheard time.Duration
	// Silence is the time for which a client that pings may send nothing. Zero means 1 minute.
	Silence time.Duration
	// Idle is the time without any bytes on any other connection. Zero means 4 hours.
	Idle time.Duration
}

// WithDefaults returns l with defaults for its zero fields.
func (l Limits) WithDefaults() Limits {
	for _, field := range []struct {
		value *time.Duration
		zero  time.Duration
	}{{&l.Handshake, 30 * time.Second}, {&l.Unheard, 10 * time.Minute}, {&l.Silence, time.Minute}, {&l.Idle, 4 * time.Hour}} {
		if *field.value == 0 {
			*field.value = field.zero
		}
	}
	l.Handshake, l.Unheard = min(l.Handshake, l.Idle), min(l.Unheard, l.Idle)
	return l
}

// Guard guards the body of answer if answer switches protocols. When a limit has passed, it calls
// end once; end must end the connection and must not wait for it.
func Guard(answer *http.Response, limits Limits, end func()) {
	backend, ok := answer.Body.(io.ReadWriteCloser)
	if !ok || answer.StatusCode != http.StatusSwitchingProtocols {
		return
	}
	answer.Body = &conn{ReadWriteCloser: backend, life: newLife(answer.Header.Get("Upgrade"), limits, end)}
}

// newLife returns the life of a connection that begins now.
func newLife(protocol string, limits Limits, end func()) *life {
	c := &life{limits: limits.WithDefaults(), end: end, begun: time.Now()}
	switch protocol := strings.ToLower(protocol); {
	case strings.HasPrefix(protocol, "spdy/3"):
		c.parser, c.answers = newSPDY(), newSPDYAnswers()
	case protocol == "websocket":
		c.parser, c.answers = newWebSocket(), newWebSocketAnswers()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(c.deadline().Sub(c.begun), c.check)
	return c
}

// conn is the backend's side of a connection: Write receives the bytes from the client.
type conn struct {
	io.ReadWriteCloser
	life *life

	once sync.Once
	err  error // of Close, guarded by once
}

// life decides how long a connection lasts.
type life struct {
	limits  Limits
	end     func()
	parser  parser // of the client's frames; nil accepts any bytes. Only heard uses it
	answers parser // of the backend's frames, for answers to pings. Only said uses it

	mu    sync.Mutex
	timer *time.Timer
	// The fields below are guarded by mu. The times are those of the last bytes; client is zero
	// until the client has sent some.
	begun, client, backend time.Time
	pinged, answered       time.Time     // pings of the client
	silence                time.Duration // zero: the client does not ping
	closed                 bool
}

// deadline returns when the connection ends unless bytes arrive. The caller holds mu.
func (c *life) deadline() time.Time {
	last := c.begun
	if c.client.After(last) {
		last = c.client
	}
	switch {
	case c.client.IsZero() && c.parser != nil && c.parser.clientBegins():
		return c.begun.Add(c.limits.Handshake)
	case c.backend.After(last):
		last = c.backend
	}
	if c.client.IsZero() {
		return last.Add(c.limits.Unheard)
	}
	// A client whose ping was not answered may be waiting for the answer: the backend continues to
	// read only when a command has consumed its input.
	if c.silence > 0 && !c.answered.Before(c.client) {
		return c.client.Add(min(c.silence, c.limits.Idle))
	}
	return last.Add(c.limits.Idle)
}

// check ends the connection if its deadline has passed, and otherwise schedules the next check.
func (c *life) check() {
	c.mu.Lock()
	left := time.Until(c.deadline())
	over := left <= 0 && !c.closed
	if !over && !c.closed {
		c.timer.Reset(left)
	}
	c.mu.Unlock()
	if over {
		c.end()
	}
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p)
	if n > 0 {
		c.life.said(p[:n])
	}
	return n, err
}

// said records bytes from the backend, which are not restricted.
func (c *life) said(p []byte) {
	answer := false
	if c.answers != nil {
		answer, _ = c.answers.parse(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.backend = time.Now()
	if answer {
		c.answered = c.backend
		if c.silence > 0 && !c.closed { // the deadline may be earlier now
			c.timer.Reset(time.Until(c.deadline()))
		}
	}
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.life.heard(p); err != nil {
		return 0, err
	}
	return c.ReadWriteCloser.Write(p)
}

// heard records bytes from the client.
func (c *life) heard(p []byte) error {
	pings := false
	if c.parser != nil {
		var err error
		if pings, err = c.parser.parse(p); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.parser == nil || c.parser.begun() {
		c.client = now
	}
	if pings {
		if !c.pinged.IsZero() {
			c.silence = max(c.limits.Silence, 3*now.Sub(c.pinged))
		}
		c.pinged = now
	}
	return nil
}

// CloseWrite forwards the end of the client's data, if the backend supports that.
func (c *conn) CloseWrite() error {
	if half, ok := c.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.life.stop()
		c.err = c.ReadWriteCloser.Close()
	})
	return c.err
}

// stop ends the limits of a connection that is closed.
func (c *life) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.timer.Stop()
}
