package kubelet_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// unlisted is a runtime whose lists of sandboxes fail, or hang until their context is done.
type unlisted struct {
	kubelet.Runtime
	fails, hangs atomic.Bool
}

func (u *unlisted) ListPodSandbox(ctx context.Context, in *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	if u.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if u.fails.Load() {
		return nil, errors.New("database is locked")
	}
	return u.Runtime.ListPodSandbox(ctx, in)
}

// TestRelistHealth: a node whose runtime answers, but does not list its contents for three minutes, is not
// ready, and is ready again with the next list.
func TestRelistHealth(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
			runtime := &unlisted{Runtime: r.config.Runtime}
			r.config.Runtime = runtime
			r.start()
			ready := func() corev1.NodeCondition {
				t.Helper()
				node, err := nodeAPI{r.api}.Get(t.Context(), "", "node-1")
				if err != nil {
					t.Fatal(err)
				}
				return nodeReady(node)
			}
			time.Sleep(time.Minute)
			fails := &runtime.fails
			if hangs {
				fails = &runtime.hangs
			}
			fails.Store(true)
			time.Sleep(2*time.Minute + 50*time.Second)
			if c := ready(); c.Status != corev1.ConditionTrue {
				t.Errorf("hangs %v: too early: %+v", hangs, c)
			}
			time.Sleep(30 * time.Second)
			const want = "PLEG is not healthy: pleg was last seen active 3m"
			if c := ready(); c.Status != corev1.ConditionFalse || c.Reason != "KubeletNotReady" || !strings.HasPrefix(c.Message, want) || !strings.HasSuffix(c.Message, "ago; threshold is 3m0s") {
				t.Errorf("hangs %v: %+v", hangs, c)
			}
			if hangs {
				return // a list without a timeout of its own never ends
			}
			fails.Store(false)
			time.Sleep(15 * time.Second)
			if c := ready(); c.Status != corev1.ConditionTrue {
				t.Errorf("hangs %v: afterwards: %+v", hangs, c)
			}
		})
	}
}
