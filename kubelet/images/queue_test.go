package images_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/kubelet/images"
)

func TestQueue(t *testing.T) {
	for _, test := range []struct {
		most int
		took time.Duration // by six pulls of a second each
	}{{1, 6 * time.Second}, {2, 3 * time.Second}, {5, 2 * time.Second}, {0, time.Second}, {-1, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			q, begin := images.NewQueue(test.most), time.Now()
			var group sync.WaitGroup
			for range 6 {
				group.Go(func() {
					leave, err := q.Enter(t.Context(), images.Source{})
					if err != nil {
						t.Error(err)
						return
					}
					defer leave()
					time.Sleep(time.Second)
				})
			}
			group.Wait()
			if took := time.Since(begin); took != test.took {
				t.Errorf("at most %d: %v", test.most, took)
			}
		})
	}
}

func TestQueueGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := images.NewQueue(1)
		leave, err := q.Enter(t.Context(), images.Source{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := q.Enter(ctx, images.Source{}); err == nil {
			t.Error("two at once")
		}
		leave()
		if leave, err = q.Enter(t.Context(), images.Source{}); err != nil {
			t.Fatal(err)
		}
		leave()
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := images.NewQueue(0).Enter(ended, images.Source{}); err == nil {
			t.Error("entered although the context had ended")
		}
	})
}

// TestQueueOfHangingPulls: pulls that hang, of one namespace and from many registries, delay a pull of
// another namespace once, and one of their own from another registry by a turn for each that waits before it.
func TestQueueOfHangingPulls(t *testing.T) {
	for _, most := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			q, begin := images.NewQueue(most), time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			var group sync.WaitGroup
			hang := func(namespace, registry string) {
				group.Go(func() {
					leave, err := q.Enter(ctx, images.Source{Namespace: namespace, Registry: registry})
					if err == nil {
						<-ctx.Done()
						leave()
					}
				})
				synctest.Wait()
			}
			took := map[string]time.Duration{}
			pull := func(namespace, registry string) {
				group.Go(func() {
					leave, err := q.Enter(ctx, images.Source{Namespace: namespace, Registry: registry})
					if err != nil {
						return
					}
					took[namespace+" "+registry] = time.Since(begin)
					leave()
				})
				synctest.Wait()
			}
			for i := range 20 {
				hang("hostile", fmt.Sprint("hangs-", i%10)) // each registry twice
			}
			pull("other", "good")
			pull("hostile", "good")
			pull("hostile", "hangs-0")
			time.Sleep(time.Hour)
			synctest.Wait()
			for name, want := range map[string]time.Duration{
				"other good":   images.Patience,
				"hostile good": 10 * images.Patience / time.Duration(most),
			} {
				if at, ok := took[name]; !ok || at != want {
					t.Errorf("at most %d: the pull %s began: %v, after %v, want after %v", most, name, ok, at, want)
				}
			}
			if at, ok := took["hostile hangs-0"]; ok {
				t.Errorf("at most %d: a second pull from a registry that hangs began after %v", most, at)
			}
			cancel()
			group.Wait()
			// All turns are there again, and no more.
			var leaves []func()
			for range most {
				leave, err := q.Enter(t.Context(), images.Source{})
				if err != nil {
					t.Fatal(err)
				}
				leaves = append(leaves, leave)
			}
			brief, end := context.WithTimeout(t.Context(), time.Second)
			defer end()
			if _, err := q.Enter(brief, images.Source{}); err == nil {
				t.Errorf("%d pulls at once, want at most %d", most+1, most)
			}
			for _, leave := range leaves {
				leave()
			}
		})
	}
}
