package staticpods_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/kubelet/staticpods"
	corev1 "k8s.io/api/core/v1"
)

// TestPeriods: files and the URL have their own periods.
func TestPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration
		began := time.Now()
		static, err := staticpods.New(staticpods.Config{
			NodeName: "n", Path: t.TempDir(), URL: "http://x/", Period: time.Second, URLPeriod: 7 * time.Second,
			Complete: func(*corev1.Pod) error { return nil },
			Client: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				asked = append(asked, time.Since(began))
				return nil, errors.New("down")
			})},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		if err := static.Run(ctx); err != nil {
			t.Error(err)
		}
		if want := []time.Duration{0, 7 * time.Second, 14 * time.Second}; !slices.Equal(asked, want) {
			t.Errorf("asked at %v, want %v", asked, want)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
