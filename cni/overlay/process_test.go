//go:build linux

package overlay_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/planekit/planekit/cni/overlay"
	"github.com/planekit/planekit/cni/overlay/overlaytest"
)

// agentEnv tells the test's program that it is an agent, and which one.
const agentEnv = "PLANEKIT_OVERLAY_AGENT"

// agent describes a process with the overlay of a machine.
type agent struct {
	Local    overlay.Member
	Underlay string
	Backend  string
	Peers    []overlay.Member
}

// runAgent runs an overlay in the process's own namespace until the process is killed. It prints the
// published member when it is ready.
func runAgent(text string) error {
	var a agent
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return err
	}
	published := make(chan overlay.Member, 1)
	o, err := overlay.New(overlay.Config{
		Backend: a.Backend, Local: a.Local, Underlay: a.Underlay, Members: overlay.NewSet(a.Peers...),
		Publish: func(_ context.Context, m overlay.Member) error { published <- m; return nil },
	})
	if err != nil {
		return err
	}
	go func() {
		<-o.Ready()
		if err := json.NewEncoder(os.Stdout).Encode(<-published); err != nil {
			os.Exit(1)
		}
	}()
	return o.Run(context.Background())
}

// startAgent starts the agent of a machine as a process and waits until it is ready. The returned
// function kills it.
func startAgent(t *testing.T, m *overlaytest.Machine, a agent) (published overlay.Member, kill func()) {
	t.Helper()
	text, err := json.Marshal(a)
	must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), agentEnv+"="+string(text)), os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, m.Inside(cmd.Start))
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()         // with the signal
		}
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the agent is not ready: %v", err)
	}
	must(t, json.Unmarshal(line, &published))
	return published, kill
}

// TestKilledAgent kills the process of an agent again and again and checks that no packet is lost. With
// udp, which cannot forward while it is away, packets get through again afterwards.
func TestKilledAgent(t *testing.T) {
	for _, backend := range []string{overlay.VXLAN, overlay.HostGW, overlay.UDP} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			lab := overlaytest.New(t, overlaytest.Config{Machines: 2})
			c := &cluster{Lab: lab, set: overlay.NewSet(), overlays: make([]*overlay.Overlay, 2), stops: make([]func(), 2),
				config: func(conf *overlay.Config) { conf.Backend = backend }}
			c.start(1)
			for _, m := range c.Machines {
				must(t, m.SetPodMTU(c.overlays[1].MTU()))
				m.Serve(lab, m.PodAddress, port)
			}
			peer := member(t, c.set, "m2")
			m := c.Machines[0]
			a := agent{Local: overlay.Member{Name: m.Name, Subnets: m.Subnets}, Underlay: m.Underlay, Backend: backend, Peers: []overlay.Member{peer}}
			published, kill := startAgent(t, m, a)
			must(t, c.set.Put(t.Context(), published))
			c.Reachable(port, 100, overlaytest.Pod4)
			finish := func() (sent, lost uint64) { return 100, 0 }
			if backend != overlay.UDP {
				finish = count(t, c)
			}
			for range 3 {
				kill()
				_, kill = startAgent(t, m, a)
			}
			c.Reachable(port, 100, overlaytest.Pod4)
			if sent, lost := finish(); lost != 0 || sent < 100 {
				t.Errorf("%d of %d packets are lost", lost, sent)
			}
		})
	}
}

// member returns a member of a set.
func member(t *testing.T, set *overlay.Set, name string) (found overlay.Member) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	must(t, set.Follow(ctx, func(all []overlay.Member) {
		for _, m := range all {
			if m.Name == name {
				found = m
				cancel()
			}
		}
	}))
	if found.Name == "" {
		t.Fatalf("no member %s", name)
	}
	return found
}
