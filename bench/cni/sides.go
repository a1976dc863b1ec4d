//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/plugins"
)

// build builds the plugins of both sides below dir.
func build(ctx context.Context, dir string) error {
	const reference = "github.com/containernetworking/plugins/plugins/"
	ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	if err := os.Mkdir(theirs, 0o755); err != nil {
		return err
	}
	program := filepath.Join(dir, "planekit-cni")
	for _, args := range [][]string{
		{program, "github.com/planekit/planekit/cni/planekit-cni"},
		{theirs + "/", reference + "main/bridge", reference + "ipam/host-local"},
	} {
		if out, err := exec.CommandContext(ctx, "go", append([]string{"build", "-o"}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("go build %v: %w\n%s", args, err, out)
		}
	}
	return plugins.Install(ours, program)
}

// container is one namespace to attach.
type container struct{ id, path string }

// side is a library with plugins, on a host of its own. The first element of add and del is for one
// container at a time, the second for many at once; allAdd and allDel are the times for all of these.
type side struct {
	name string
	host string
	// bar is the highest ratio to the reference's ADD; zero means none.
	bar            float64
	attach, detach func(context.Context, container) error
	add, del       [2]figures
	allAdd, allDel figures
}

// open makes the sides, the reference first. stop removes their namespaces.
func open(ctx context.Context, dir string, masquerade bool) (sides []*side, stop func(), err error) {
	var hosts []string
	stop = func() {
		for _, h := range hosts {
			deleteNamespace(h)
		}
	}
	for n, kind := range []struct {
		name, bin string
		libcni    bool
		executor  cni.Executor
		bar       float64
	}{
		{"libcni, reference plugins", "theirs", true, nil, 0},
		{"planekit's invoker, reference plugins", "theirs", false, cni.Processes{}, 0},
		{"planekit's invoker and plugins, as processes", "ours", false, cni.Processes{}, 0},
		{"planekit's invoker and plugins, in its process", "ours", false, plugins.InProcess{}, 0.5},
	} {
		host, err := makeNamespace()
		if err != nil {
			stop()
			return nil, nil, err
		}
		hosts = append(hosts, host)
		state := filepath.Join(dir, fmt.Sprintf("state-%v-%d", masquerade, n))
		s := &side{name: kind.name, host: host, bar: kind.bar}
		conf := fmt.Appendf(nil, `{"cniVersion":"1.0.0","name":"bench","plugins":[{"type":"bridge","bridge":"pk62b","isDefaultGateway":true,"ipMasq":%t,"lockDir":%q,
			"ipam":{"type":"host-local","subnet":"10.62.64.0/20","dataDir":%q}}]}`, masquerade, state, state)
		if kind.libcni {
			err = s.useLibcni(conf, filepath.Join(dir, kind.bin), state)
		} else {
			err = s.useInvoker(conf, cni.Config{Path: []string{filepath.Join(dir, kind.bin)}, Dir: state, Executor: kind.executor})
		}
		if err != nil {
			stop()
			return nil, nil, err
		}
		sides = append(sides, s)
	}
	return sides, stop, nil
}

func (s *side) useLibcni(conf []byte, bin, state string) error {
	list, err := libcni.NetworkConfFromBytes(conf)
	if err != nil {
		return err
	}
	library := libcni.NewCNIConfigWithCacheDir([]string{bin}, state, nil)
	runtime := func(c container) *libcni.RuntimeConf {
		return &libcni.RuntimeConf{ContainerID: c.id, NetNS: c.path, IfName: "eth0"}
	}
	s.attach = func(ctx context.Context, c container) error {
		_, err := library.AddNetworkList(ctx, list, runtime(c))
		return err
	}
	s.detach = func(ctx context.Context, c container) error { return library.DelNetworkList(ctx, list, runtime(c)) }
	return nil
}

func (s *side) useInvoker(conf []byte, config cni.Config) error {
	list, err := cni.ParseList(conf)
	if err != nil {
		return err
	}
	invoker, err := cni.New(config)
	if err != nil {
		return err
	}
	runtime := func(c container) cni.RuntimeConfig {
		return cni.RuntimeConfig{ContainerID: c.id, NetNS: c.path, IfName: "eth0"}
	}
	s.attach = func(ctx context.Context, c container) error {
		_, err := invoker.Add(ctx, list, runtime(c))
		return err
	}
	s.detach = func(ctx context.Context, c container) error { return invoker.Del(ctx, list, runtime(c)) }
	return nil
}

// one adds and deletes count containers at once, whose namespaces it makes before and deletes after.
func (s *side) one(first, count int) error {
	var all []container
	defer func() {
		for _, c := range all {
			deleteNamespace(c.path)
		}
	}()
	for n := range count {
		path, err := makeNamespace()
		if err != nil {
			return err
		}
		all = append(all, container{fmt.Sprint("c", first+n), path})
	}
	together := min(count-1, 1)
	whole, err := s.together(all, s.attach, &s.add[together])
	if err != nil {
		return fmt.Errorf("%s: add: %w", s.name, err)
	}
	s.allAdd = append(s.allAdd, whole)
	if whole, err = s.together(all, s.detach, &s.del[together]); err != nil {
		return fmt.Errorf("%s: del: %w", s.name, err)
	}
	s.allDel = append(s.allDel, whole)
	if together == 0 { // these are for many alone
		s.allAdd, s.allDel = nil, nil
	}
	return nil
}

// together calls f for all containers at once, on threads of the host.
func (s *side) together(all []container, f func(context.Context, container) error, times *figures) (time.Duration, error) {
	var mu sync.Mutex
	var failed error
	var running sync.WaitGroup
	ready, begin := make(chan struct{}), make(chan struct{})
	for _, c := range all {
		running.Go(func() {
			entered := false
			err := inside(s.host, func() error {
				entered = true
				ready <- struct{}{}
				<-begin
				start := time.Now()
				err := f(context.Background(), c)
				took := time.Since(start)
				mu.Lock()
				defer mu.Unlock()
				*times = append(*times, took)
				return err
			})
			if !entered {
				ready <- struct{}{}
			}
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	for range all {
		<-ready
	}
	start := time.Now()
	close(begin)
	running.Wait()
	return time.Since(start), failed
}
