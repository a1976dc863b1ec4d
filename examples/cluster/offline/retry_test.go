package offline

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestBuildIsTriedAgain: pulls get the error of a build that fails, and the build is tried again.
func TestBuildIsTriedAgain(t *testing.T) {
	cache := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		flaky := recipe{repositories: []string{"library/flaky"}, tags: []string{"latest"}, files: func() ([]file, error) {
			if attempts++; attempts < 3 {
				return nil, errors.New("the mirror is out of reach")
			}
			return []file{{path: "hello", data: []byte("hello"), mode: 0o644}}, nil
		}}
		images, err := newImages(Config{Cache: cache}, []recipe{flaky})
		if err != nil {
			t.Fatal(err)
		}
		defer images.listener.Close()
		pull := func(want int, said string) {
			t.Helper()
			w := httptest.NewRecorder()
			images.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/library/flaky/manifests/latest", nil))
			if w.Code != want || !strings.Contains(w.Body.String(), said) {
				t.Errorf("after %d attempts: %d %s, want %d", attempts, w.Code, w.Body, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go images.build(ctx, flaky)
		pull(http.StatusInternalServerError, "build image library/flaky: the mirror is out of reach")
		time.Sleep(firstRetry + time.Millisecond)
		synctest.Wait()
		pull(http.StatusInternalServerError, "out of reach")
		time.Sleep(2 * firstRetry)
		synctest.Wait()
		pull(http.StatusOK, "config")
	})
}
