package images_test

import (
	"context"
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
					leave, err := q.Enter(t.Context())
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
		leave, err := q.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := q.Enter(ctx); err == nil {
			t.Error("two at once")
		}
		leave()
		if leave, err = q.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		leave()
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := images.NewQueue(0).Enter(ended); err == nil {
			t.Error("entered although the context had ended")
		}
	})
}
