package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri"
)

// bare is the runtime of planekit's node without a kubelet: it gets only the calls that a pod needs.
// The kubelet leaves its sandboxes alone, because they do not have the node's label.
type bare struct {
	runtime     *cri.Client
	dir, cgroup string
	next        int // the number of the next pod
}

func newBare(ctx context.Context, n *node, dir string) (*bare, error) {
	runtime, err := cri.Dial(ctx, n.daemon.Socket(), cri.Options{})
	return &bare{runtime: runtime, dir: filepath.Join(dir, bareRuntime), cgroup: filepath.Join(n.cgroup, bareRuntime)}, err
}

// live starts pods at once, stops them at once when all have started, and adds their times.
func (b *bare) live(ctx context.Context, pods int, times *lives) error {
	var mu sync.Mutex
	// each calls do for every pod at once and adds the times to a list.
	each := func(list *[]time.Duration, do func(int) error) error {
		var group sync.WaitGroup
		errs := make([]error, pods)
		for i := range pods {
			group.Go(func() {
				began := time.Now()
				errs[i] = do(i)
				took := time.Since(began)
				mu.Lock()
				defer mu.Unlock()
				*list = append(*list, took)
			})
		}
		group.Wait()
		return errors.Join(errs...)
	}
	first, made := b.next, make([]bareLife, pods)
	b.next += pods
	err := each(&times.starts, func(i int) (err error) { made[i], err = b.start(ctx, first+i); return err })
	time.Sleep(trapping)
	return errors.Join(err, each(&times.stops, func(i int) error { return b.stop(ctx, made[i]) }))
}

// bareLife holds the IDs of a pod's sandbox and container.
type bareLife struct{ sandbox, container string }

// start makes the calls that start a pod as podOn returns it.
func (b *bare) start(ctx context.Context, number int) (l bareLife, err error) {
	name := fmt.Sprintf("%s-%d", bareRuntime, number)
	host := &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_CONTAINER}
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: namespace, Uid: name},
		LogDirectory: filepath.Join(b.dir, name),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: filepath.Join(b.cgroup, name),
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: host,
				// As Kubernetes has it. The runtime takes some 20 ms to make the filter.
				Seccomp: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
			},
		},
	}
	run, err := b.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		return l, err
	}
	l.sandbox = run.PodSandboxId
	image := &runtimeapi.ImageSpec{Image: "busybox"}
	if _, err = b.runtime.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: image}); err != nil {
		return l, err
	}
	created, err := b.runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: l.sandbox, SandboxConfig: sandbox,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Image: image, Command: command, LogPath: "c.log",
			Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: host}},
		},
	})
	if err != nil {
		return l, err
	}
	l.container = created.ContainerId
	_, err = b.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: l.container})
	return l, err
}

func (b *bare) stop(ctx context.Context, l bareLife) error {
	_, err1 := b.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: l.container, Timeout: 30})
	_, err2 := b.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: l.sandbox})
	_, err3 := b.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: l.sandbox})
	return errors.Join(err1, err2, err3)
}
