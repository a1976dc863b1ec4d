//go:build linux

// Command overlay compares planekit's overlays with what they are made of: plain routes over veth pairs
// and bridges, and a VXLAN that is made by hand with iproute2.
//
//	cd bench && go run ./overlay
//
// Each side has two machines, which are network namespaces, with a pod each. Rounds of the sides
// alternate; in a round, a pod sends one TCP stream to the other and then small TCP messages to and
// fro. The table has the medians, and the rate that a tenth of the rounds reached. Bars compare the latter:
// other work on the machine takes from a median, but rarely from that. It needs root. The exit status is
// 1 if a bar was missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/cni/overlay"
	"github.com/planekit/planekit/cni/overlay/overlaytest"
)

func main() {
	rounds := flag.Int("rounds", 60, "rounds of each side")
	stream := flag.Duration("stream", 150*time.Millisecond, "duration of the stream in a round")
	messages := flag.Int("messages", 200, "messages to and fro in a round")
	flag.Parse()
	p := &program{ctx: context.Background()}
	defer p.end()
	if !report(p, os.Stdout, *rounds, *stream, *messages) {
		p.end()
		log.Fatal("a bar was missed")
	}
}

// program is the testing.TB of labs that are not in a test.
type program struct {
	testing.TB
	ctx      context.Context
	cleanups []func()
}

func (p *program) Helper()                  {}
func (p *program) Context() context.Context { return p.ctx }
func (p *program) Cleanup(f func())         { p.cleanups = append(p.cleanups, f) }
func (p *program) Error(args ...any)        { log.Print(args...) }
func (p *program) Skip(args ...any)         { p.Fatal(args...) }

func (p *program) Fatal(args ...any) {
	p.end()
	log.Fatal(args...)
}

func (p *program) Fatalf(format string, args ...any) { p.Fatal(fmt.Sprintf(format, args...)) }

// end runs the cleanups, the last first.
func (p *program) end() {
	for len(p.cleanups) > 0 {
		last := len(p.cleanups) - 1
		f := p.cleanups[last]
		p.cleanups = p.cleanups[:last]
		f()
	}
}

// A side is one way to connect two machines.
type side struct {
	name    string
	connect func(lab *overlaytest.Lab) error
	// peer is the index of the side to compare with, or -1; bar is the least part of its throughput.
	peer int
	bar  float64

	lab              *overlaytest.Lab
	rates, latencies []float64
}

func sides() []*side {
	ours := func(backend string) func(*overlaytest.Lab) error {
		return func(lab *overlaytest.Lab) error { return startOurs(lab, backend) }
	}
	return []*side{
		{name: "plain routes", peer: -1, connect: func(lab *overlaytest.Lab) error {
			a, b := lab.Machines[0], lab.Machines[1]
			return errors.Join(a.HandMadeRoutes(b), b.HandMadeRoutes(a))
		}},
		{name: "host-gw", connect: ours(overlay.HostGW), peer: 0, bar: 0.95},
		{name: "hand-made VXLAN", peer: -1, connect: handMade},
		{name: "vxlan", connect: ours(overlay.VXLAN), peer: 2, bar: 0.9},
		{name: "udp", connect: ours(overlay.UDP), peer: 2},
	}
}

func startOurs(lab *overlaytest.Lab, backend string) error {
	set := overlay.NewSet()
	for _, m := range lab.Machines {
		o, err := overlay.New(overlay.Config{
			Backend: backend, Local: overlay.Member{Name: m.Name, Subnets: m.Subnets},
			Underlay: m.Underlay, NetNS: m.Path, Members: set, Publish: set.Put,
		})
		if err != nil {
			return err
		}
		lab.Start(m, o)
	}
	return nil
}

func handMade(lab *overlaytest.Lab) error {
	const mtu = 1450
	a, b := lab.Machines[0], lab.Machines[1]
	for _, m := range lab.Machines {
		if err := errors.Join(m.HandMadeVXLAN("vxlan1", mtu), m.SetPodMTU(mtu)); err != nil {
			return err
		}
	}
	return errors.Join(
		a.HandMadePeer("vxlan1", b, overlay.MAC(b.HandMadeMAC()).String()),
		b.HandMadePeer("vxlan1", a, overlay.MAC(a.HandMadeMAC()).String()),
	)
}

// report measures, prints the table and reports whether all bars were reached.
func report(tb testing.TB, out io.Writer, rounds int, stream time.Duration, messages int) bool {
	all := sides()
	for _, s := range all {
		s.lab = overlaytest.New(tb, overlaytest.Config{Machines: 2})
		if err := s.connect(s.lab); err != nil {
			tb.Fatal(err)
		}
	}
	for range rounds {
		for _, s := range all {
			if err := s.round(stream, messages); err != nil {
				tb.Fatalf("%s: round(%v, %d): %v", s.name, stream, messages, err)
			}
		}
	}
	held := true
	fmt.Fprintln(out, "| | one TCP stream, median | best tenth | of | message to and fro | bar |\n|---|---|---|---|---|---|")
	for _, s := range all {
		ratio, bar := "", ""
		if s.peer >= 0 {
			part := best(s.rates) / best(all[s.peer].rates)
			ratio = fmt.Sprintf("%.0f %% of %s", 100*part, all[s.peer].name)
			if s.bar > 0 {
				ok := part >= s.bar
				held = held && ok
				bar = fmt.Sprintf("%.0f %%: %s", 100*s.bar, map[bool]string{true: "held", false: "MISSED"}[ok])
			}
		}
		fmt.Fprintf(out, "| %s | %.2f Gbit/s | %.2f Gbit/s | %s | %.0f us | %s |\n", s.name, median(s.rates), best(s.rates), ratio, median(s.latencies), bar)
	}
	return held
}

// best returns the value that a tenth of all reach.
func best(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)*9/10]
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

const port = 5001

// round measures one side once.
func (s *side) round(stream time.Duration, messages int) error {
	from, to := s.lab.Machines[0], s.lab.Machines[1]
	l, err := to.Pod.Listen(to.PodAddress, port)
	if err != nil {
		return err
	}
	defer l.Close()
	rate, err := throughput(from, to, l, stream)
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	latency, err := roundTrip(from, to, l, messages)
	if err != nil {
		return fmt.Errorf("messages: %w", err)
	}
	s.rates, s.latencies = append(s.rates, rate), append(s.latencies, latency)
	return nil
}

// throughput returns what the receiver of a stream gets, in Gbit/s.
func throughput(from, to *overlaytest.Machine, l net.Listener, d time.Duration) (float64, error) {
	received := make(chan float64, 1) // room for the one answer
	go func() {
		c, err := l.Accept()
		if err != nil {
			received <- 0
			return
		}
		defer c.Close()
		begin := time.Now()
		n, _ := io.Copy(io.Discard, c)
		received <- float64(n) * 8 / time.Since(begin).Seconds() / 1e9
	}()
	c, err := from.Pod.Dial(context.Background(), "tcp", to.PodAddress, port)
	if err != nil {
		return 0, err
	}
	buffer := make([]byte, 128<<10)
	for begin := time.Now(); time.Since(begin) < d; {
		if _, err := c.Write(buffer); err != nil {
			return 0, err
		}
	}
	c.Close()
	return <-received, nil
}

// roundTrip returns the median time of a message of one byte and its answer, in microseconds.
func roundTrip(from, to *overlaytest.Machine, l net.Listener, messages int) (float64, error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c) // until the other side closes
			c.Close()
		}
	}()
	c, err := from.Pod.Dial(context.Background(), "tcp", to.PodAddress, port)
	if err != nil {
		return 0, err
	}
	times := make([]float64, 0, messages)
	message := make([]byte, 1)
	for range messages {
		begin := time.Now()
		if _, err := c.Write(message); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(c, message); err != nil {
			return 0, err
		}
		times = append(times, float64(time.Since(begin).Nanoseconds())/1e3)
	}
	c.Close()
	<-done
	return median(times), nil
}
