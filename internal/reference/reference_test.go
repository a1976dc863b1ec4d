package reference_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/internal/reference"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// recorder records the failures of a test.
type recorder struct {
	testing.TB
	failures []string
}

func (*recorder) Helper() {}

func (r *recorder) Errorf(format string, values ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, values...))
}

func TestCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	check := func(text string, update bool, want string) {
		t.Helper()
		r := &recorder{TB: t}
		reference.Check(r, file, text, update)
		if got := strings.Join(r.failures, "\n"); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("Check(%q, %v) reports %q, want %q", text, update, got, want)
		}
	}
	check("one\ntwo\n", false, "want nil: run this test with -update")
	check("one\ntwo\n", true, "")
	check("one\ntwo\n", false, "")
	check("one\n2\n", false, `is "two", want "2"`)
	check("one\ntwo\nthree\n", false, `is "", want "three"`)
	check("one", false, `is "two", want "(the end)"`)
	if text, err := os.ReadFile(file); err != nil || string(text) != "one\ntwo\n" {
		t.Errorf("ReadFile() = %q, %v, want the text that was written last", text, err)
	}
}

func TestFlags(t *testing.T) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.IntP("nodes", "n", 1, "number of nodes, <100 | none")
	set.StringSlice("more", nil, "more `things`")
	set.String("secret", "", "not shown")
	if err := set.MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	want := "| flag | type | default | meaning |\n|---|---|---|---|\n" +
		"| `--more` | stringSlice | | more things |\n" +
		"| `--nodes`, `-n` | int | `1` | number of nodes, \\<100 \\| none |\n"
	if got := reference.Flags(reference.All(set)); got != want {
		t.Errorf("Flags() = %q, want %q", got, want)
	}
}

func TestCommands(t *testing.T) {
	root := &cobra.Command{Use: "tool"}
	group := &cobra.Command{Use: "image", Short: "Images"}
	load := &cobra.Command{Use: "load FILE", Short: "Load an image", Run: func(*cobra.Command, []string) {}}
	load.Flags().Bool("quiet", false, "print nothing")
	root.PersistentFlags().String("everywhere", "", "not repeated")
	root.AddCommand(group)
	group.AddCommand(load)
	want := "\n### tool image load\n\nLoad an image.\n\n    tool image load FILE [flags]\n\n" +
		"| flag | type | default | meaning |\n|---|---|---|---|\n| `--quiet` | bool | `false` | print nothing |\n"
	if got := reference.Commands(root); got != want {
		t.Errorf("Commands() = %q, want %q", got, want)
	}
}
