package kubelet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/kubelet/internal/events"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// storedEvents stores the events that it is given.
type storedEvents struct{ list []*corev1.Event }

func (s *storedEvents) Create(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	s.list = append(s.list, e)
	return e, nil
}

func (*storedEvents) Update(context.Context, *corev1.Event) (*corev1.Event, error) {
	return nil, errors.New("not called")
}

func TestTerminationBacksOff(t *testing.T) { synctest.Test(t, testTerminationBacksOff) }

func testTerminationBacksOff(t *testing.T) {
	stored := &storedEvents{}
	k := &Kubelet{events: events.New(stored, "node-1", logr.Discard())}
	go k.events.Run(t.Context())
	w := &worker{kubelet: k}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
	refusal := errors.Join(nil, status.Error(codes.Internal, "failed to destroy network"))
	pauses := func(count int, err error) []time.Duration {
		var all []time.Duration
		for range count {
			w.refused(t.Context(), pod, false, err)
			all = append(all, w.removal.delay)
		}
		return all
	}
	want := []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}
	for i := range want {
		want[i] *= time.Second
	}
	if got := pauses(len(want), refusal); !slices.Equal(got, want) {
		t.Errorf("pauses %v, want %v", got, want)
	}
	synctest.Wait()
	if n := len(stored.list); n != 1 {
		t.Fatalf("%d events", n)
	}
	if e := stored.list[0]; e.Reason != "FailedKillPod" || e.Type != "Warning" || !strings.Contains(e.Message, "failed to destroy network") {
		t.Errorf("event %+v", e)
	}
	// A runtime that is being started again, and a pod that is to end sooner, are
	// not waited for long.
	away := errors.Join(status.Error(codes.Unavailable, "connection refused"))
	if got := pauses(2, away); !slices.Equal(got, []time.Duration{retrySync, retrySync}) {
		t.Errorf("pauses while the runtime is away: %v", got)
	}
	pauses(3, refusal)
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if w.refused(interrupted, pod, false, context.Canceled); w.removal.delay != retrySync {
		t.Errorf("pause after an interruption: %v", w.removal.delay)
	}
	synctest.Wait()
	if n := len(stored.list); n != 1 {
		t.Errorf("%d more events", n-1)
	}
}
