package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// ended counts completed lists.
type ended struct{ lists int }

func (e *ended) Replace(string, []*corev1.Pod) { e.lists++ }
func (*ended) Put(string, *corev1.Pod)         {}
func (*ended) Remove(string, *corev1.Pod)      {}
func (*ended) Bookmark(string)                 {}

// TestWaitForInitialEvents: the watch ends after a minute without an object, even if other events
// arrive. Slow objects do not end it, and after the initial events nothing does.
func TestWaitForInitialEvents(t *testing.T) {
	end := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	for name, test := range map[string]struct {
		kind     watch.EventType
		object   *corev1.Pod
		want     time.Duration // time at which the watch is given up; zero means never
		wantList int
	}{
		"bookmarks": {watch.Bookmark, &corev1.Pod{}, time.Minute, 0},
		"objects":   {watch.Added, &corev1.Pod{}, 6 * time.Minute, 0},
		"the end":   {watch.Bookmark, end, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, sink := time.Now(), &ended{}
				i := newInitialEvents[*corev1.Pod](sink, true)
				ctx, stop := i.bound(t.Context(), time.Minute)
				defer stop()
				var gaveUp time.Duration
				context.AfterFunc(ctx, func() { gaveUp = time.Since(start) })
				i.Begin()
				for range 10 { // five minutes
					time.Sleep(30 * time.Second)
					if i.pending {
						if err := i.take(test.kind, test.object); err != nil {
							t.Fatal(err)
						}
					}
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if gaveUp != test.want || sink.lists != test.wantList {
					t.Errorf("given up after %v, want %v; %d lists", gaveUp, test.want, sink.lists)
				}
				if err := i.explain(ctx, nil); errors.Is(err, errInitialEvents) != (test.want > 0) {
					t.Errorf("explained as %v", err)
				}
			})
		})
	}
}
