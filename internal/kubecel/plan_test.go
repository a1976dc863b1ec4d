package kubecel_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/interpreter"
	"github.com/planekit/planekit/internal/kubecel"
)

// TestProgramsCost checks that a program, which has the functions that it calls only, has the same value and the same cost as
// one with all functions and the options of all libraries.
func TestProgramsCost(t *testing.T) {
	env, err := kubecel.NewEnv(cel.Variable("self", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	self := map[string]any{"self": map[string]any{"names": []any{"b", "a", "b"}, "size": int64(3), "text": "a-b-c"}}
	for _, expression := range []string{
		`1 + 1`, `self.size > 2 && self.size + 1 < 10 ? "a" : "b"`, `self.names.all(n, n.size() == 1)`, `self.names.map(n, n + "x").join(",")`,
		`sets.contains(self.names, ["a", "b"]) && sets.intersects(["b"], ["b", "c"]) && sets.equivalent([1, 2], [2, 1])`,
		`[3, 1, 2].sort() == [1, 2, 3] && self.names.isSorted() == false && ["b", "a", "b"].distinct().size() == 2 && [1, 2, 3].slice(0, 2).size() == 2`,
		`lists.range(10).reverse().size()`, `[[1], [2]].flatten().size()`, `self.?absent.orValue("x")`, `optional.of(self.size).or(optional.none()).value()`,
		`{"a": 1}.all(k, v, v == 1 && k == "a")`, `"a-b".split("-").size() + self.text.replace("-", "").size()`,
		`timestamp("2026-01-01T00:00:00Z").getFullYear() == 2026 && duration("1h").getMinutes() == 60`,
		`quantity("1Gi").isGreaterThan(quantity("1Mi")) && ip("10.0.0.1").family() == 4 && url("https://a/b").getHost() == "a"`,
		`self.text.matches("^[a-c-]+$") && self.text.find("[a-c]") == "a"`, `dyn(1) == 1.0 && type(self.size) == int`, `self.none == 1`, `[1][2]`,
	} {
		ast, err := kubecel.Compile(context.Background(), env, expression)
		if err != nil {
			t.Fatalf("kubecel.Compile(%s): %v", expression, err)
		}
		program, err := kubecel.Program(env, ast)
		if err != nil {
			t.Fatalf("kubecel.Program(%s): %v", expression, err)
		}
		whole, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostTracking(kubecel.Costs()), cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)))
		if err != nil {
			t.Fatalf("env.Program(%s): %v", expression, err)
		}
		got, gotDetails, gotErr := program.Eval(self)
		want, wantDetails, wantErr := whole.Eval(self)
		if fmt.Sprint(got, gotErr) != fmt.Sprint(want, wantErr) || *gotDetails.ActualCost() != *wantDetails.ActualCost() {
			t.Errorf("%s: %v, %v at a cost of %d; with all functions %v, %v at %d", expression, got, gotErr, *gotDetails.ActualCost(), want, wantErr, *wantDetails.ActualCost())
		}
	}
}

// TestProgramsMemory bounds what a program keeps.
func TestProgramsMemory(t *testing.T) {
	env, err := kubecel.NewEnv(cel.Variable("self", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	all := make([]cel.Program, 0, 300)
	var before uint64
	for i := range 400 {
		if i == 100 { // the parser has grown its tables
			all = all[:0]
			before = heap()
		}
		ast, err := kubecel.Compile(context.Background(), env, fmt.Sprintf("self.size > %d && self.names.all(n, n.size() < 10)", i))
		if err != nil {
			t.Fatal(err)
		}
		program, err := kubecel.Program(env, ast)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, program)
	}
	if each := (heap() - before) / uint64(len(all)); each > 16<<10 {
		t.Errorf("a program keeps %d bytes", each)
	}
	runtime.KeepAlive(all)
}
