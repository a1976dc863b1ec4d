// Command measure prints the size and shape of this repository as a Markdown table, with one column
// for each tree:
//
//	go run ./internal/measure                  # the working tree
//	go run ./internal/measure 94b02d8 .        # a commit beside the working tree
//	go run ./internal/measure -build=false .   # without the programs in examples
//
// It parses the Go files of a tree, counts what a change of each kind touches by ARCHITECTURE.md,
// builds the programs in examples, and measures how long they take from their start until they are
// ready. docs/benchmarks/house.md has the results.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	build := flag.Bool("build", true, "build and start the programs in examples")
	runs := flag.Int("runs", 5, "starts of each program, of which the table has the fastest and the median")
	flag.Parse()
	trees := flag.Args()
	if len(trees) == 0 {
		trees = []string{"."}
	}
	if err := measure(os.Stdout, trees, *build, *runs); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// row is one measure of one tree.
type row struct{ name, value string }

// measure prints the table of trees, each of which is a commit or "." for the working tree.
func measure(out io.Writer, trees []string, build bool, runs int) error {
	columns := make([][]row, len(trees))
	programs := make([]*programs, len(trees))
	for i, tree := range trees {
		folder, remove, err := checkout(tree)
		if err != nil {
			return err
		}
		defer remove()
		if columns[i], err = shape(folder); err != nil {
			return fmt.Errorf("%s: %w", tree, err)
		}
		if !build {
			continue
		}
		if programs[i], err = buildPrograms(folder); err != nil {
			return fmt.Errorf("%s: %w", tree, err)
		}
		defer programs[i].remove()
	}
	if build {
		// Alternate between the trees, so that all meet the same load of the machine.
		for range runs {
			for i, tree := range trees {
				if err := programs[i].start(); err != nil {
					return fmt.Errorf("%s: %w", tree, err)
				}
			}
		}
		for i := range trees {
			columns[i] = append(columns[i], programs[i].rows()...)
		}
	}
	print(out, trees, columns)
	return nil
}

// checkout returns a folder with the files of tree.
func checkout(tree string) (folder string, remove func(), err error) {
	if tree == "." {
		return ".", func() {}, nil
	}
	if folder, err = os.MkdirTemp("", "measure-"); err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(folder) }
	archive := filepath.Join(folder, "tree.tar")
	for _, command := range [][]string{
		{"git", "archive", "-o", archive, tree},
		{"tar", "-x", "-f", archive, "-C", folder},
	} {
		if text, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			remove()
			return "", nil, fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, text)
		}
	}
	return folder, remove, nil
}

// print writes the table. Trees may lack rows of each other: the order is that of the last tree,
// and rows that only earlier trees have come last.
func print(out io.Writer, trees []string, columns [][]row) {
	var names []string
	values := map[string][]string{}
	for i := len(columns) - 1; i >= 0; i-- {
		for _, r := range columns[i] {
			if values[r.name] == nil {
				names, values[r.name] = append(names, r.name), make([]string, len(columns))
			}
			values[r.name][i] = r.value
		}
	}
	fmt.Fprintf(out, "| | %s |\n|---%s|\n", strings.Join(trees, " | "), strings.Repeat("|---:", len(trees)))
	for _, name := range names {
		fmt.Fprintf(out, "| %s |", name)
		for _, value := range values[name] {
			fmt.Fprintf(out, " %s |", cmp.Or(value, "-"))
		}
		fmt.Fprintln(out)
	}
}
