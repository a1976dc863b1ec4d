package cni_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/cni"
)

func TestTryAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fails := range []int{0, 2, 9} {
			var calls []string
			left := fails
			exec := cni.ExecutorFunc(func(_ context.Context, c cni.Call) ([]byte, error) {
				calls = append(calls, c.Command)
				if c.Command == cni.CmdAdd && left > 0 {
					left--
					return nil, cni.Errorf(cni.CodeTryAgain, "soon")
				}
				return []byte(`{}`), nil
			})
			invoker, err := cni.New(cni.Config{Dir: t.TempDir(), Executor: exec, Attempts: 3, RetryDelay: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			l, err := cni.ParseList([]byte(`{"cniVersion":"1.0.0","name":"net","type":"p"}`))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			_, err = invoker.Add(t.Context(), l, web)
			took := time.Since(start)
			switch fails {
			case 0:
				if err != nil || took != 0 || !slices.Equal(calls, []string{"ADD"}) {
					t.Errorf("%v %v %v", err, took, calls)
				}
			case 2: // a DEL before every further ADD
				if err != nil || took != 3*time.Second || !slices.Equal(calls, []string{"ADD", "DEL", "ADD", "DEL", "ADD"}) {
					t.Errorf("%v %v %v", err, took, calls)
				}
			case 9:
				e, ok := errors.AsType[*cni.Error](err)
				if !ok || e.Code != cni.CodeTryAgain || took != 3*time.Second || len(calls) != 6 {
					t.Errorf("%v %v %v", err, took, calls)
				}
			}
		}
	})
}
