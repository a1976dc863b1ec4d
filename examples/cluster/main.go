// Command cluster is a whole Kubernetes-compatible cluster in one process: an
// etcd, an API server, controllers, a scheduler and the kubelets of its nodes.
//
//	cluster [--nodes 3] [--runtime auto|containerd|fake] [--data-dir DIR]
//
// The same parts run on several machines: with --role server a control plane, with
// --role node one of its nodes.
//
// It shows how planekit's packages are joined: none of them knows another,
// this program hands each what it needs. Start reading in cluster.go.
//
// Run under the name of a network plugin, it is that plugin: the container
// runtime finds links to it in its plugin directory.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/examples/cluster/nodeimages"
	"github.com/planekit/planekit/examples/cluster/objectstore"
	"github.com/planekit/planekit/examples/cluster/stopping"
	"github.com/spf13/cobra"
)

func main() {
	if code, ok := asOther(); ok {
		os.Exit(code)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, stopping.LeaveSignal)
	ctx, asked := interrupted(signals, func() { os.Exit(exitInterrupted) })
	if err := command(asked).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// exitInterrupted is the exit code of a program that a signal ended (128 and
// SIGINT, as shells have it).
const exitInterrupted = 130

// how says how the program is to stop: at once, and leaving pods as they are, once the channels are closed. They may be
// nil, which is never.
type how struct {
	now, leave <-chan struct{}
}

// interrupted returns a context that ends with the first of signals. The second one asks to stop at once, and exit is
// called at the third. If the first is [stopping.LeaveSignal], pods are left.
func interrupted(signals <-chan os.Signal, exit func()) (context.Context, how) {
	ctx, cancel := context.WithCancel(context.Background())
	now, leave := make(chan struct{}), make(chan struct{})
	go func() { // ends with the program
		if <-signals == stopping.LeaveSignal {
			close(leave)
		}
		cancel()
		<-signals
		close(now)
		<-signals
		exit()
	}()
	return ctx, how{now, leave}
}

// command returns the command line of a program that stops as it is asked to.
func command(asked how) *cobra.Command {
	o := options{stopNow: asked.now, leave: asked.leave}
	c := &cobra.Command{
		Use:           "cluster",
		Short:         "Run a whole cluster in one process",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			for _, warning := range o.kubelet.Warnings() {
				fmt.Fprintln(c.ErrOrStderr(), "cluster: --kubelet-config:", warning)
			}
			for _, warning := range o.schedulerWarnings() {
				fmt.Fprintln(c.ErrOrStderr(), "cluster:", warning)
			}
			err := run(c.Context(), o, c.OutOrStdout(), logger(o.verbosity))
			if errors.Is(err, context.Canceled) {
				return nil // interrupted before it was ready
			}
			return err
		},
	}
	o.add(c.Flags())
	c.AddCommand(objectstore.SnapshotCommand(dataDir), nodeimages.Command(dataDir), stopping.Command(dataDir))
	return c
}

// logger writes to standard error what an operator acts on, and more with each
// level of verbosity.
func logger(verbosity int) logr.Logger {
	handler := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-verbosity)})
	return logr.FromSlogHandler(handler)
}
