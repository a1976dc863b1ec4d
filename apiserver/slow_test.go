package apiserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// stuck is a client that reads the first bytes of its watch and no more.
type stuck struct {
	*httptest.ResponseRecorder
	cut chan struct{}
}

func (s *stuck) SetWriteDeadline(t time.Time) error {
	if t.Before(time.Now()) {
		close(s.cut)
	}
	return nil
}

func (s *stuck) Write(data []byte) (int, error) {
	<-s.cut
	return 0, os.ErrDeadlineExceeded
}

// TestSlowWatcherIsCut lets one watcher stand still. It is cut off after the
// write time-out, and the other sees everything at once.
func TestSlowWatcherIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := inMemory(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		good := a.watch(configPath + "?watch=true")
		began, cut := time.Now(), make(chan time.Duration, 1)
		go func() {
			w := &stuck{httptest.NewRecorder(), make(chan struct{})}
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, configPath+"?watch=true", nil)
			s.ServeHTTP(w, r)
			cut <- time.Since(began)
		}()
		synctest.Wait()
		a.create(configPath, configMap("a", ""))
		a.create(configPath, configMap("b", ""))
		good.want("ADDED/a", "ADDED/b")
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the other watcher waited %v", waited)
		}
		if after := <-cut; after != 30*time.Second {
			t.Errorf("cut after %v", after)
		}
	})
}
