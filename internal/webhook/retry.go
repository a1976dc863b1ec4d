package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"
)

// Numbers of kube-apiserver's webhooks.
const (
	// Attempts is how often a question is asked at most.
	Attempts = 5

	firstPause = 500 * time.Millisecond // and each one more half as long again
	jitter     = 0.2                    // of a pause is added to it at most
)

// ask tries until there is an answer, and returns the last failure.
func (s *Service) ask(ctx context.Context, question []byte) ([]byte, error) {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		answer, err := s.attempt(ctx, question)
		if err == nil || attempt == Attempts || ctx.Err() != nil || !passing(err) {
			return answer, err
		}
		timer := time.NewTimer(pause + time.Duration(rand.Float64()*jitter*float64(pause)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		case <-timer.C:
		}
		pause += pause / 2
	}
}

// statusError is an answer that is none.
type statusError struct {
	code  int
	later bool // it says when to come back
}

func (e *statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the service answered %d %s", e.code, http.StatusText(e.code)))
}

// passing reports whether the same question may be answered a moment later.
func passing(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		return status.code == http.StatusTooManyRequests || status.code >= 500 || status.later
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		// Others are of TLS: a certificate does not get better by asking.
		return !op.Timeout() && (op.Op == "dial" || op.Op == "read" || op.Op == "write")
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || lost(err)
}

// lost are ends of HTTP/2 connections and streams, which net/http has no types for.
func lost(err error) bool {
	text := err.Error()
	return strings.Contains(text, "http2: client connection lost") || strings.Contains(text, "http2: server sent GOAWAY") ||
		strings.Contains(text, "stream error: stream ID")
}
