package events

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// writtenEvents counts what a recorder creates and updates.
type writtenEvents struct{ created, updated int }

func (w *writtenEvents) Create(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	w.created++
	return e, nil
}

func (w *writtenEvents) Update(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	w.updated++
	return e, nil
}

// After ten minutes without events none is remembered; before, a repetition is counted.
func TestEventsAreForgottenWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := &writtenEvents{}
		r := New(written, "node-1", logr.Discard())
		ctx, cancel := context.WithCancel(t.Context())
		go r.Run(ctx)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
		for range 3 {
			r.Pod(pod, nil, corev1.EventTypeWarning, "Failed", "again")
			time.Sleep(forgetAfter - time.Second)
		}
		synctest.Wait()
		if *written != (writtenEvents{created: 1, updated: 2}) {
			t.Errorf("%+v before anything is forgotten", *written)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(r.sent)+len(r.budgets) > 0 {
			t.Errorf("%d events and %d budgets are remembered", len(r.sent), len(r.budgets))
		}
		r.Pod(pod, nil, corev1.EventTypeWarning, "Failed", "again")
		synctest.Wait()
		if *written != (writtenEvents{created: 2, updated: 2}) {
			t.Errorf("%+v afterwards", *written)
		}
		cancel()
		synctest.Wait()
	})
}

// TestLongMessages: an event has a bounded message, however much a pod makes the kubelet quote.
func TestLongMessages(t *testing.T) {
	r := New(&writtenEvents{}, "node-1", logr.Discard())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
	r.Pod(pod, nil, corev1.EventTypeWarning, "Unhealthy", strings.Repeat("ż", 1<<20))
	if said := (<-r.queue).Message; len(said) > maxMessage || len(said) < maxMessage-1 || !utf8.ValidString(said) {
		t.Errorf("the message has %d bytes", len(said))
	}
}
