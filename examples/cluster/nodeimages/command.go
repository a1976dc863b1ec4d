package nodeimages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// Command returns the command "image" of a cluster, with load, list and remove. Its data directory is dataDir by default.
func Command(dataDir string) *cobra.Command {
	c := &cobra.Command{Use: "image", Short: "Load, list and remove images of the nodes of a running cluster"}
	var dir, name string
	add := func(use, short string, args cobra.PositionalArgs, run func(ctx context.Context, out io.Writer, args []string) error) *cobra.Command {
		verb, _, _ := strings.Cut(use, " ")
		sub := &cobra.Command{Use: use, Short: short, Args: args, RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if err := run(ctx, c.OutOrStdout(), args); err != nil {
				return fmt.Errorf("image %s: %w", verb, err)
			}
			return nil
		}}
		sub.Flags().StringVar(&dir, "data-dir", dataDir, "directory for everything the cluster keeps")
		c.AddCommand(sub)
		return sub
	}
	load := add("load PATH...", "Bring the images of archives (docker save) or OCI layouts (directories or tar files) to every node", cobra.MinimumNArgs(1),
		func(ctx context.Context, out io.Writer, paths []string) error {
			if name != "" && len(paths) > 1 {
				return errors.New("--name is for one file")
			}
			for _, path := range paths {
				if err := load(ctx, out, dir, path, name); err != nil {
					return err
				}
			}
			return nil
		})
	load.Flags().StringVar(&name, "name", "", "name of the image in the file, such as registry.example/app:1 (default the names that the file says)")
	add("list", "List the images of all nodes", cobra.NoArgs, func(ctx context.Context, out io.Writer, _ []string) error {
		return list(ctx, out, dir)
	})
	add("remove NAME...", "Remove images from every node", cobra.MinimumNArgs(1), func(ctx context.Context, out io.Writer, names []string) error {
		for _, name := range names {
			if err := remove(ctx, out, dir, name); err != nil {
				return err
			}
		}
		return nil
	})
	return c
}

// list writes a table of the images of all nodes.
func list(ctx context.Context, out io.Writer, dataDir string) error {
	all, err := connect(ctx, dataDir)
	if err != nil {
		return err
	}
	defer all.Close()
	rows, err := all.images(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "IMAGE\tID\tSIZE\tNODES")
	for _, row := range rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", row.name, shortID(row.id), humanSize(row.size), strings.Join(row.nodes, ","))
	}
	return table.Flush()
}

// shortID returns the first 12 digits of an image's ID, as Docker shows them.
func shortID(id string) string {
	id = id[strings.Index(id, ":")+1:]
	return id[:min(len(id), 12)]
}

// humanSize is a size in decimal units.
func humanSize(n uint64) string {
	size := float64(n)
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if size < 1000 {
			return fmt.Sprintf("%.3g %s", size, unit)
		}
		size /= 1000
	}
	return fmt.Sprintf("%.3g TB", size)
}
