package kubecel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/used"
)

// TestCompileWithinBudget: expressions of any form that the budget pays for take at most about a second together,
// however many there are.
func TestCompileWithinBudget(t *testing.T) {
	env, err := kubecel.NewEnv(cel.Variable("object", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubecel.Compile(t.Context(), env, "true"); err != nil { // which makes what all share
		t.Fatal(err)
	}
	nested := func(open, inner, end string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	for name, text := range map[string]string{
		"short":              "true",
		"maps in maps":       nested("{'a':", "1", "}", 160),
		"few maps in maps":   nested("{'a':", "1", "}", 60),
		"lists in lists":     nested("[", "1", "]", 120),
		"long list":          "[" + strings.Repeat("1,", 40_000) + "1]",
		"optional indexes":   "object" + strings.Repeat("[?0]", 200),
		"maps of maps":       "[1]" + strings.Repeat(".map(x,x)", 100),
		"all in all":         nested("[1].all(x,", "true", ")", 90),
		"undeclared":         "x" + strings.Repeat("||x", 3000),
		"too large patterns": "''.matches('(((a{30}){30}){30})')" + strings.Repeat("||''.matches('(((a{30}){30}){30})')", 250),
		"large patterns":     "''.matches('(a{30}){30}')" + strings.Repeat("||''.matches('(a{30}){30}')", 250),
		"mixed types":        "[" + strings.Repeat("1,'a',", 10_000) + "1]",
		"conditions":         strings.Repeat("true?1:", 100) + "1",
	} {
		t.Run(name, func(t *testing.T) {
			// The race detector takes its time: a tenth of the budget, and of the second.
			ctx := budget.Attach(t.Context(), budget.Limits{Steps: budget.Default.Steps / race, Bytes: budget.Default.Bytes})
			before, count := used.Processor(), 0
			for budget.From(ctx).Err() == nil {
				ast, err := kubecel.Compile(ctx, env, text)
				if err == nil {
					_, err = kubecel.Program(env, ast)
				}
				if err != nil && len(err.Error()) > 32<<10 {
					t.Fatalf("Compile(%.40s...) = an error of %d bytes, want at most 32 KiB", text, len(err.Error()))
				}
				count++
			}
			took := used.Processor() - before
			t.Logf("%d of %d bytes in %v", count, len(text), took)
			if took > 2*time.Second*slowdown/race { // two: other packages are tested at the same time
				t.Errorf("compiling %d expressions %.40s... takes %v within one budget, want at most a second", count, text, took)
			}
		})
	}
}

// TestCompileEndsWithItsClient: no expression is compiled for a client that has left.
func TestCompileEndsWithItsClient(t *testing.T) {
	env, err := kubecel.NewEnv()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := kubecel.Compile(ctx, env, "true"); !errors.Is(err, context.Canceled) {
		t.Errorf("Compile() for a client that has left = %v, want context.Canceled", err)
	}
}

// TestLongIssues: few issues show their lines, as in kube-apiserver, and many do not.
func TestLongIssues(t *testing.T) {
	env, err := kubecel.NewEnv()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"x":                                 "compilation failed: ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n | x\n | ^",
		"x" + strings.Repeat("\n || x", 50): " | x\n",
		"x" + strings.Repeat(" || x", 1000): "compilation failed: ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\nERROR: <input>:1:6:",
	} {
		_, err := kubecel.Compile(t.Context(), env, text)
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 17<<10 {
			t.Errorf("Compile(%.30q...) = %.300v, want it to contain %q, and at most 17 KiB", text, err, want)
		}
	}
}
