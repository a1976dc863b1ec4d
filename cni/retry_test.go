package cni_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/cni"
)

// A plugin that never answers takes its time twice, for ADD and for DEL, and
// stays on record until it answers again.
func TestPluginThatHangsAlwaysKeepsTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		hangs := true
		exec := cni.ExecutorFunc(func(ctx context.Context, c cni.Call) ([]byte, error) {
			calls = append(calls, c.Type+" "+c.Command)
			if hangs && c.Type == "b" {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			return []byte(`{}`), nil
		})
		invoker, err := cni.New(cni.Config{Dir: t.TempDir(), Executor: exec})
		if err != nil {
			t.Fatal(err)
		}
		l, err := cni.ParseList([]byte(`{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"a"},{"type":"b"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = invoker.Add(t.Context(), l, web)
		if took := time.Since(start); took != 180*time.Second || !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "no answer within 1m30s") || !strings.Contains(err.Error(), "cleaning up") {
			t.Errorf("after %v: %v", took, err)
		}
		if _, err := invoker.Add(t.Context(), l, web); !errors.Is(err, cni.ErrExists) {
			t.Errorf("add before the attachment is gone: %v", err)
		}
		hangs = false
		if err := invoker.GC(t.Context(), l, nil); err != nil {
			t.Error(err)
		}
		if _, err := invoker.Add(t.Context(), l, web); err != nil {
			t.Errorf("add after gc: %v", err)
		}
		expect(t, calls, "a ADD", "b ADD", "b DEL", "a DEL", "b DEL", "a DEL", "a GC", "b GC", "a ADD", "b ADD")
	})
}

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
					t.Errorf("Add: %v after %v, calls %v, want no error, 0s and an ADD alone", err, took, calls)
				}
			case 2: // a DEL before every further ADD
				if err != nil || took != 3*time.Second || !slices.Equal(calls, []string{"ADD", "DEL", "ADD", "DEL", "ADD"}) {
					t.Errorf("Add: %v after %v, calls %v, want no error, 3s and ADD, DEL, ADD, DEL, ADD", err, took, calls)
				}
			case 9:
				e, ok := errors.AsType[*cni.Error](err)
				if !ok || e.Code != cni.CodeTryAgain || took != 3*time.Second || len(calls) != 6 {
					t.Errorf("Add: %v after %v, calls %v, want an Error with CodeTryAgain, 3s and 6 calls", err, took, calls)
				}
			}
		}
	})
}
