// Package stoppods stops all pods of a node, as the runtime has them. It needs neither the API nor a running
// kubelet.
//
//	stopper := stoppods.New(stoppods.Config{Runtime: runtime, NodeName: "node-1", Grace: 10 * time.Second, Clean: clean})
//	err := stopper.Stop(ctx)
package stoppods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/planekit/planekit/kubelet/internal/pause"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime stops and removes sandboxes and containers. Stop and remove are idempotent.
type Runtime interface {
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error)
	StopPodSandbox(context.Context, *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error)
	RemovePodSandbox(context.Context, *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error)
	ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error)
	StopContainer(context.Context, *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error)
	RemoveContainer(context.Context, *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error)
}

// Config describes a Stopper. Now may be nil.
type Config struct {
	Runtime Runtime
	// NodeName is in the label of the sandboxes that are stopped.
	NodeName string
	// Grace is the longest grace of a container.
	Grace time.Duration
	// Now, when closed, ends all grace, and Stop when no pod goes any more.
	Now <-chan struct{}
	// Clean removes what the pods leave outside of the runtime, after these have been stopped.
	Clean func(ctx context.Context, pods map[types.UID]bool) error
}

// Stopper stops the pods of a node.
type Stopper struct {
	config Config

	mu       sync.Mutex
	stopping map[string]bool // guarded by mu; see Stopping
}

// New returns a stopper, which stops nothing yet.
func New(c Config) *Stopper { return &Stopper{config: c, stopping: map[string]bool{}} }

// Stop stops and removes all sandboxes of the node, and then calls Clean.
func (s *Stopper) Stop(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with ctx
		select {
		case <-s.config.Now:
			awaitStall(ctx, func() int { return len(s.Stopping()) })
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := s.stop(ctx); err != nil {
		return fmt.Errorf("stop pods: %w", err)
	}
	return nil
}

// Bounds of the grace of a container, in seconds: the least, and that of one that says nothing.
const (
	minGrace     = 2
	defaultGrace = 30
)

// stopNowPatience is how long Stop, after Config.Now was closed, waits for the next pod to
// be gone. A busy machine needs seconds for each; a runtime that hangs must not hold up the program.
const stopNowPatience = 10 * time.Second

// awaitStall returns when count has been the same for stopNowPatience, or ctx is done.
func awaitStall(ctx context.Context, count func() int) {
	for before := -1; ; {
		now := count()
		if now == before || !pause.For(ctx, stopNowPatience) {
			return
		}
		before = now
	}
}

// Stopping returns the sorted namespace/name of the pods that Stop is stopping.
func (s *Stopper) Stopping() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.stopping))
}

func (s *Stopper) setStopping(sandbox *runtimeapi.PodSandbox, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := sandbox.GetMetadata().GetNamespace() + "/" + sandbox.GetMetadata().GetName()
	if !is {
		delete(s.stopping, name)
		return
	}
	s.stopping[name] = true
}

func (s *Stopper) stop(ctx context.Context) error {
	node := map[string]string{podconfig.LabelNode: s.config.NodeName}
	sandboxes, err := s.listSandboxes(ctx, node)
	if err != nil {
		return err
	}
	containers, err := s.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: node},
	})
	if err != nil {
		return err
	}
	inside := map[string][]*runtimeapi.Container{}
	for _, c := range containers.Containers {
		inside[c.GetPodSandboxId()] = append(inside[c.GetPodSandboxId()], c)
	}
	errs := make([]error, len(sandboxes.Items))
	var group sync.WaitGroup
	for i, sandbox := range sandboxes.Items {
		s.setStopping(sandbox, true)
		group.Go(func() {
			defer s.setStopping(sandbox, false)
			errs[i] = s.stopSandbox(ctx, sandbox, inside[sandbox.GetId()])
		})
	}
	group.Wait()
	uids := map[types.UID]bool{}
	for _, sandbox := range sandboxes.Items {
		uids[types.UID(sandbox.GetLabels()[podconfig.LabelPodUID])] = true
	}
	return errors.Join(append(errs, s.config.Clean(ctx, uids))...)
}

// runtimePatience is how long Stop waits for a runtime that is being restarted.
const runtimePatience = 10 * time.Second

// listSandboxes lists the sandboxes with labels, after it has waited for a runtime that cannot be
// reached.
func (s *Stopper) listSandboxes(ctx context.Context, labels map[string]string) (*runtimeapi.ListPodSandboxResponse, error) {
	deadline := time.Now().Add(runtimePatience)
	for {
		out, err := s.config.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
			Filter: &runtimeapi.PodSandboxFilter{LabelSelector: labels},
		})
		if status.Code(err) != codes.Unavailable || time.Now().After(deadline) || !pause.For(ctx, 100*time.Millisecond) {
			return out, err
		}
	}
}

// stopSandbox stops the containers of a sandbox, with the grace of their pod up to
// Config.Grace, and removes it.
func (s *Stopper) stopSandbox(ctx context.Context, sandbox *runtimeapi.PodSandbox, containers []*runtimeapi.Container) error {
	errs := make([]error, len(containers))
	var group sync.WaitGroup
	for i, c := range containers {
		if c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		grace := int64(defaultGrace)
		if n, err := strconv.ParseInt(c.GetAnnotations()[podconfig.AnnotationGrace], 10, 64); err == nil {
			grace = n
		}
		grace = min(max(grace, minGrace), int64(s.config.Grace.Seconds()))
		group.Go(func() { errs[i] = s.stopContainer(ctx, c.GetId(), grace) })
	}
	group.Wait()
	if _, err := s.config.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox.GetId()}); err != nil {
		return errors.Join(append(errs, err)...)
	}
	// Remove containers before the sandbox; otherwise containerd leaves their files behind.
	for _, c := range containers {
		errs = append(errs, remove(ctx, func() error {
			_, err := s.config.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: c.GetId()})
			return err
		}))
	}
	return errors.Join(append(errs, remove(ctx, func() error {
		_, err := s.config.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox.GetId()})
		return err
	}))...)
}

// remove calls do again as long as something is not found: what is gone is no error of a runtime, but containerd
// returns one while it still removes the same thing for a kubelet that was killed.
func remove(ctx context.Context, do func() error) error {
	deadline := time.Now().Add(runtimePatience)
	for {
		err := do()
		if status.Code(err) != codes.NotFound || time.Now().After(deadline) || !pause.For(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

// stopContainer stops a container with grace in seconds, or without grace once Config.Now is
// closed.
func (s *Stopper) stopContainer(ctx context.Context, id string, grace int64) error {
	stop := func(grace int64) error {
		_, err := s.config.Runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: grace})
		return err
	}
	patient := make(chan error, 1)
	go func() { patient <- stop(grace) }()
	select {
	case err := <-patient:
		return err
	case <-s.config.Now:
	}
	return errors.Join(stop(0), <-patient)
}
