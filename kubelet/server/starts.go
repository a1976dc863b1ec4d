package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The start of commands in the containers of a pod. One process of the runtime serves a pod, its probes too.
// containerd's slows down by far more than their number when it starts more than eight commands at once.
const (
	// startsAtOnce bounds the commands of a pod that start at the same time.
	startsAtOnce = 4
	// startTime bounds the time that a command takes to start: no runtime says when it has.
	startTime = time.Second
	// startWait bounds the time that a client waits for its command to be started.
	startWait = 30 * time.Second
)

// starts lets the commands of a pod start a few at a time. The zero starts has none.
type starts struct {
	mu   sync.Mutex
	pods map[types.UID]*podStarts
}

type podStarts struct {
	slots chan struct{} // has one for each command that starts
	users int           // commands that start, or wait; guarded by the mutex of starts
}

// wait waits until a command of a pod may start. After ok, the caller must call ended when the runtime has ended
// the command. If it never does, the command counts as started after startTime.
func (s *starts) wait(ctx context.Context, pod types.UID) (ended func(), ok bool) {
	p := s.enter(pod)
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		s.leave(pod, p)
		return nil, false
	}
	end := sync.OnceFunc(func() {
		<-p.slots
		s.leave(pod, p)
	})
	timer := time.AfterFunc(startTime, end)
	return func() {
		timer.Stop()
		end()
	}, true
}

func (s *starts) enter(pod types.UID) *podStarts {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[pod]
	if p == nil {
		if s.pods == nil {
			s.pods = map[types.UID]*podStarts{}
		}
		p = &podStarts{slots: make(chan struct{}, startsAtOnce)}
		s.pods[pod] = p
	}
	p.users++
	return p
}

func (s *starts) leave(pod types.UID, p *podStarts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.users--; p.users == 0 {
		delete(s.pods, pod)
	}
}

// starting is a transport that calls ended when the runtime, and not the client, ends the connection.
type starting struct {
	http.RoundTripper
	ended func()
}

func (s starting) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	conn, upgraded := answer.Body.(io.ReadWriteCloser)
	if !upgraded {
		s.ended()
		return answer, nil
	}
	answer.Body = startingConn{conn, s.ended}
	return answer, nil
}

type startingConn struct {
	io.ReadWriteCloser
	ended func()
}

func (c startingConn) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p)
	if errors.Is(err, io.EOF) {
		c.ended()
	}
	return n, err
}

// enter counts a stream, or answers that there are too many. After ok, the caller must call leave.
func (s *Server) enter(w http.ResponseWriter) (leave func(), ok bool) {
	leave, ok = s.open.Enter("", s.config.MaxStreams)
	if !ok {
		tooMany(w, fmt.Sprintf("the kubelet has %d streams open, which is the most", s.config.MaxStreams))
	}
	return leave, ok
}

func tooMany(w http.ResponseWriter, text string) {
	w.Header().Set("Retry-After", "1")
	refuse(w, text, http.StatusTooManyRequests)
}
