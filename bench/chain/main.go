package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/planekit/planekit/admission/plugins"
	corev1 "k8s.io/api/core/v1"
)

// side is one of the two that are compared.
type side interface {
	// pods makes pods to create.
	pods(n int) []any
	authenticate() error
	authorize() error
	admit(pod any) error
	// create is all three, one after another.
	create(pod any) error
	// stored is the pod as it would be stored.
	stored(pod any) (*corev1.Pod, error)
}

// steps are the lines of the table.
var steps = []struct {
	name string
	run  func(s side, pod any) error
}{
	{"who: client certificate", func(s side, _ any) error { return s.authenticate() }},
	{"may: RBAC", func(s side, _ any) error { return s.authorize() }},
	{"should: admission", func(s side, pod any) error { return s.admit(pod) }},
	{"the whole chain", func(s side, pod any) error { return s.create(pod) }},
}

func main() {
	rounds := flag.Int("rounds", 15, "rounds of each side, of which the medians are told")
	creates := flag.Int("creates", 2000, "creates in each round")
	teams := flag.Int("teams", 1000, "teams, each with a namespace, an account and a role binding")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *rounds, *creates, *teams); err != nil {
		log.Fatal(err)
	}
}

// run prints the table.
func run(ctx context.Context, out io.Writer, rounds, creates, teams int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ours, theirs, names, err := sides(ctx, teams)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "A pod create, %d namespaces and role bindings; plugins: %s.\n\n", teams, strings.Join(names, ", "))
	fmt.Fprintln(out, "Each cell: time of one, and processor time, which others on the machine lengthen less. The ratio is of that.")
	fmt.Fprintln(out, "\n| step | planekit | kube-apiserver | kube-apiserver : planekit |\n|---|---|---|---|")
	for _, step := range steps {
		var took, used [2][]time.Duration
		for range rounds {
			for i, s := range []side{ours, theirs} {
				t, cpu, err := measure(s, creates, step.run)
				if err != nil {
					return fmt.Errorf("%s: %w", step.name, err)
				}
				took[i], used[i] = append(took[i], t), append(used[i], cpu)
			}
		}
		a, b := median(used[0]), median(used[1])
		fmt.Fprintf(out, "| %s | %s, %s | %s, %s | %.1f |\n", step.name,
			micros(median(took[0])), micros(a), micros(median(took[1])), micros(b), float64(b)/float64(a))
	}
	return nil
}

// sides starts both, with the same plugins.
func sides(ctx context.Context, teams int) (ours, theirs side, names []string, err error) {
	w, err := newWorld(teams)
	if err != nil {
		return nil, nil, nil, err
	}
	if names, err = plugins.Names(plugins.Config{Table: table(ctx, w)}); err != nil {
		return nil, nil, nil, err
	}
	if ours, err = newPlanekit(ctx, w); err != nil {
		return nil, nil, nil, err
	}
	theirs, err = newStock(ctx, w, names)
	return ours, theirs, names, err
}

// measure is how long one of n takes, and how much of the processor it uses, that
// of collecting its garbage included.
func measure(s side, n int, do func(side, any) error) (took, used time.Duration, err error) {
	pods := s.pods(n)
	runtime.GC() // of what was before
	cpu, start := processor(), time.Now()
	for _, pod := range pods {
		if err := do(s, pod); err != nil {
			return 0, 0, err
		}
	}
	each := time.Duration(n)
	return time.Since(start) / each, (processor() - cpu) / each, nil
}

// processor returns the processor time that this process has used so far.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func micros(d time.Duration) string { return fmt.Sprintf("%.2f µs", float64(d.Nanoseconds())/1000) }
