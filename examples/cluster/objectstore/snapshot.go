package objectstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/examples/cluster/datadir"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
	"github.com/planekit/planekit/storage/etcdstore/embedded/snapshotsocket"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// snapshotSocket is the file in the data directory at which a running cluster serves snapshots of its
// embedded etcd.
const snapshotSocket = "snapshot.sock"

// serveSnapshots serves snapshots at the socket for as long as the cluster runs.
func (c Config) serveSnapshots(server *embedded.Server) error {
	snapshots, err := snapshotsocket.Listen(c.Dir.Join(snapshotSocket), server.Snapshot)
	if err != nil {
		return err
	}
	snapshots.Failed = func(err error) { c.Log.Error(err, "a snapshot failed") }
	c.Stack.Start("snapshots", snapshots.Run)
	return nil
}

// SnapshotCommand returns the command "snapshot" of a cluster, with save, restore and status. Its data directory is
// dataDir by default.
func SnapshotCommand(dataDir string) *cobra.Command {
	c := &cobra.Command{Use: "snapshot", Short: "Save, restore and describe snapshots of the cluster's etcd"}
	addDir := func(flags *pflag.FlagSet, dir *string) {
		flags.StringVar(dir, "data-dir", dataDir, "directory for everything the cluster keeps")
	}
	var from source
	save := &cobra.Command{
		Use: "save FILE", Short: "Write a snapshot of a cluster that runs, or is stopped, to a file", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := from.save(c.Context(), args[0]); err != nil {
				return fmt.Errorf("snapshot save: %w", err)
			}
			fmt.Fprintf(c.OutOrStdout(), "Snapshot saved at %s\n", args[0])
			return nil
		},
	}
	addDir(save.Flags(), &from.dir)
	from.external.addFlags(save.Flags())
	var dir string
	restore := &cobra.Command{
		Use: "restore FILE", Short: "Make the etcd of a new data directory from a snapshot", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			status, err := embedded.Restore(args[0], filepath.Join(dir, "etcd"))
			if err != nil {
				return fmt.Errorf("snapshot restore: %w", err)
			}
			fmt.Fprintf(c.OutOrStdout(), "Restored revision %d to %s; revisions go on after %d\n",
				status.Revision, filepath.Join(dir, "etcd"), status.Revision+embedded.RevisionGap)
			return nil
		},
	}
	addDir(restore.Flags(), &dir)
	var form string
	status := &cobra.Command{
		Use: "status FILE", Short: "Verify a snapshot and describe it", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			status, err := embedded.Status(args[0])
			if err != nil {
				return fmt.Errorf("snapshot status: %w", err)
			}
			return writeStatus(c.OutOrStdout(), form, status)
		},
	}
	status.Flags().StringVarP(&form, "write-out", "w", "simple", "simple, table or json")
	c.AddCommand(save, restore, status)
	return c
}

// writeStatus writes what etcdutl does.
func writeStatus(w io.Writer, form string, s embedded.SnapshotStatus) error {
	row := []string{fmt.Sprintf("%x", s.Hash), fmt.Sprint(s.Revision), fmt.Sprint(s.TotalKeys), humanSize(s.TotalSize), s.Version}
	switch form {
	case "json":
		return json.NewEncoder(w).Encode(s)
	case "table":
		table := tabwriter.NewWriter(w, 0, 0, 1, ' ', tabwriter.Debug|tabwriter.AlignRight)
		fmt.Fprintln(table, "HASH\tREVISION\tTOTAL KEYS\tTOTAL SIZE\tVERSION\t")
		fmt.Fprintln(table, strings.Join(row, "\t")+"\t")
		return table.Flush()
	case "simple":
		_, err := fmt.Fprintln(w, strings.Join(row, ", "))
		return err
	}
	return fmt.Errorf("--write-out must be simple, table or json, not %q", form)
}

// humanSize is a size as etcdutl has it: decimal, with two digits at least.
func humanSize(n int64) string {
	size, unit := float64(n), 0
	for ; size >= 1000 && unit < 4; unit++ {
		size /= 1000
	}
	name := [...]string{"B", "kB", "MB", "GB", "TB"}[unit]
	if unit == 0 || size >= 10 {
		return fmt.Sprintf("%.0f %s", size, name)
	}
	return fmt.Sprintf("%.1f %s", size, name)
}

// source names the etcd that a snapshot shows: an external one, or else that of a data directory.
type source struct {
	dir      string
	external external
}

// save writes a snapshot to a file that is whole or does not exist.
func (s *source) save(ctx context.Context, file string) error {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // there is none once it was renamed
	err = s.take(ctx, f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// It has its sum at its end, so one that broke off is noticed.
	if _, err := embedded.Status(f.Name()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

// take asks the owner of the data: an external etcd, the cluster that runs on the
// data directory, or, where none does, an etcd that is started for it.
func (s *source) take(ctx context.Context, w io.Writer) error {
	if len(s.external.servers) > 0 {
		return s.external.snapshot(ctx, w)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "etcd")); err != nil {
		return err
	}
	err := snapshotsocket.Read(ctx, filepath.Join(s.dir, snapshotSocket), w)
	if !errors.Is(err, snapshotsocket.ErrNotServed) {
		return err
	}
	dir, err := datadir.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(embedded.SnapshotDir(ctx, dir.Join("etcd"), w), dir.Close())
}

// snapshot reads a snapshot of the etcd.
func (e *external) snapshot(ctx context.Context, w io.Writer) error {
	client, err := e.dial(ctx, logr.Discard())
	if err != nil {
		return err
	}
	defer client.Close()
	answer, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, answer.Snapshot)
	return errors.Join(err, answer.Snapshot.Close())
}
