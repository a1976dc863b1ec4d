package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
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
	fmt.Fprintln(out, "| step | planekit | kube-apiserver | kube-apiserver : planekit |\n|---|---|---|---|")
	for _, step := range steps {
		var took [2][]time.Duration
		for range rounds {
			for i, s := range []side{ours, theirs} {
				t, err := measure(s, creates, step.run)
				if err != nil {
					return fmt.Errorf("%s: %w", step.name, err)
				}
				took[i] = append(took[i], t)
			}
		}
		a, b := median(took[0]), median(took[1])
		fmt.Fprintf(out, "| %s | %s | %s | %.1f |\n", step.name, micros(a), micros(b), float64(b)/float64(a))
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

// measure is how long one of n takes.
func measure(s side, n int, do func(side, any) error) (time.Duration, error) {
	pods := s.pods(n)
	start := time.Now()
	for _, pod := range pods {
		if err := do(s, pod); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(n), nil
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func micros(d time.Duration) string { return fmt.Sprintf("%.2f µs", float64(d.Nanoseconds())/1000) }
