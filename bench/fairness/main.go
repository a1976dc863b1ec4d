// Command fairness measures how clients of one user that never stop sending requests affect all
// other clients, with planekit's API server and with kube-apiserver.
//
//	go run ./fairness [--greedy 3000] [--duration 20s] [--sides planekit,kube-apiserver] [--bin directory]
//
// Each greedy client has a connection of its own and sends one request after another: lists of 500
// pods, reads, creates and deletes of ConfigMaps. They run in a process of their own, at a lower
// priority of the scheduler, because in practice they do not run on the server's machine.
//
// Meanwhile nodes renew their leases, two controllers renew theirs for leader election, and another
// tenant creates, reads and lists ConfigMaps. Each of these clients sends at fixed times. Its
// latency counts from the time at which the request was due, so that a late request does not hide
// the delay of the next. RBAC allows all of them everything; each side has only its own mandatory
// and suggested objects of API Priority and Fairness.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	greedy   int
	duration time.Duration
	sides    string
	bin      string
	// target is set in the process of the greedy clients.
	target string
}

func main() {
	var o options
	flag.IntVar(&o.greedy, "greedy", 3000, "how many greedy clients there are")
	flag.DurationVar(&o.duration, "duration", 20*time.Second, "how long they ask")
	flag.StringVar(&o.sides, "sides", "planekit,kube-apiserver", "what to measure, separated by commas")
	flag.StringVar(&o.bin, "bin", "", "directory of programs that are built already: cluster, etcd, kube-apiserver")
	flag.StringVar(&o.target, "target", "", "be the greedy clients of the server at this URL (used by this program itself)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "fairness:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	if flag.NArg() > 0 || o.greedy < 0 || o.duration <= 0 {
		return errors.New("the number of greedy clients, the duration or an argument is not valid")
	}
	if o.target != "" {
		return beGreedy(ctx, o)
	}
	fmt.Printf("%d greedy clients of one user for %v.\n\n| | | requests | failed | p50 | p99 | longest |\n|---|---|---|---|---|---|---|\n", o.greedy, o.duration)
	var failed error
	for _, name := range strings.Split(o.sides, ",") {
		start := starters[name]
		if start == nil {
			return fmt.Errorf("there is no side %q", name)
		}
		r, err := measure(ctx, o, name, start)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.print(os.Stdout)
		if name == "planekit" {
			failed = r.judge()
		}
	}
	return failed
}
