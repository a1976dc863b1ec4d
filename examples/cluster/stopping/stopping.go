// Package stopping stops a cluster that runs in another process, with its pods or without.
//
//	cluster stop               as Ctrl-C does
//	cluster stop --keep-pods   for an upgrade: pods run on, and the next start finds them
//
// Both return when the cluster has stopped. With --keep-pods, the containers, their network, the rules of services and
// policies and, where nodes are machines, the machines stay; names of services do not resolve until the next start.
// Simulated containers end with the process.
package stopping

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/planekit/planekit/examples/cluster/datadir"
)

// LeaveSignal asks a cluster, or a node, to stop and to leave pods as they are.
const LeaveSignal = syscall.SIGUSR2

// pollEvery is how often Stop looks whether a cluster has stopped.
const pollEvery = 20 * time.Millisecond

// ErrNotRunning is the error of Stop if no process has the data directory open.
var ErrNotRunning = errors.New("no cluster runs on this data directory")

// Stop asks the cluster on a data directory to stop, and waits until it has. With leave, its pods are left. When ctx is
// done, the error is that of ctx, and the cluster goes on stopping.
func Stop(ctx context.Context, dataDir string, leave bool) error {
	pid, err := datadir.Holder(dataDir)
	if err != nil {
		return err
	}
	if pid == 0 {
		return fmt.Errorf("%s: %w", dataDir, ErrNotRunning)
	}
	s := syscall.SIGTERM
	if leave {
		s = LeaveSignal
	}
	if err := syscall.Kill(pid, s); err != nil {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	look := time.NewTicker(pollEvery)
	defer look.Stop()
	for {
		if now, err := datadir.Holder(dataDir); err != nil || now != pid {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("process %d is still stopping: %w", pid, ctx.Err())
		}
	}
}

// Command returns the command "stop". Its data directory is dataDir by default.
func Command(dataDir string) *cobra.Command {
	leave := false
	c := &cobra.Command{
		Use: "stop", Args: cobra.NoArgs, Short: "Stop a running cluster or node, as Ctrl-C does, or leave its pods running for an upgrade",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer cancel()
			return stop(ctx, c.OutOrStdout(), dataDir, leave)
		},
	}
	c.Flags().StringVar(&dataDir, "data-dir", dataDir, "directory for everything the cluster keeps")
	c.Flags().BoolVar(&leave, "keep-pods", false, "leave pods running for the next start on the data directory, which may be of another version")
	return c
}

func stop(ctx context.Context, out io.Writer, dataDir string, leave bool) error {
	begin := time.Now()
	if err := Stop(ctx, dataDir, leave); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	pods := "with its pods"
	if leave {
		pods = "its pods run on"
	}
	fmt.Fprintf(out, "stopped in %v, %s\n", time.Since(begin).Round(time.Millisecond), pods)
	return nil
}
