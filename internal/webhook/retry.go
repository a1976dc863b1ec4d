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

// These are the values of kube-apiserver's webhooks.
const (
	// Attempts is the maximum number of attempts for a question.
	Attempts = 5

	firstPause = 500 * time.Millisecond // the first; each further pause is half as long again
	jitter     = 0.2                    // maximum addition to a pause, relative to it
)

// ask tries until there is an answer, and returns the last error.
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

// statusError is an answer with a failure status.
type statusError struct {
	code  int
	later bool // it has a Retry-After header
}

func (e *statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the service answered %d %s", e.code, http.StatusText(e.code)))
}

// passing reports whether the same question may succeed a moment later.
func passing(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		return status.code == http.StatusTooManyRequests || status.code >= 500 || status.later
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		// Other errors come from TLS, where another attempt would fail, too.
		return !op.Timeout() && (op.Op == "dial" || op.Op == "read" || op.Op == "write")
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || lost(err)
}

// lost reports whether err is the end of an HTTP/2 connection or stream. net/http has no types for
// these errors.
func lost(err error) bool {
	text := err.Error()
	return strings.Contains(text, "http2: client connection lost") || strings.Contains(text, "http2: server sent GOAWAY") ||
		strings.Contains(text, "stream error: stream ID")
}
