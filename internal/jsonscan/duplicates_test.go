package jsonscan_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/jsonscan"
	kjson "sigs.k8s.io/json"
)

// theirs returns the results of sigs.k8s.io/json.
func theirs(text string) (paths []string) {
	var v any
	twice, err := kjson.UnmarshalStrict([]byte(text), &v)
	if err != nil {
		return nil
	}
	for _, err := range twice {
		paths = append(paths, err.Error())
	}
	return paths
}

func ours(t *testing.T, text string) (paths []string) {
	t.Helper()
	found, err := jsonscan.Duplicates(context.Background(), []byte(text), depth)
	if err != nil {
		t.Fatalf("Duplicates(%s): %v", text, err)
	}
	for _, path := range found {
		paths = append(paths, fmt.Sprintf("duplicate field %q", path))
	}
	return paths
}

// TestDuplicatesAreTheLibrarys finds the same duplicates in random texts as sigs.k8s.io/json.
func TestDuplicatesAreTheLibrarys(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var value func(level int) string
	value = func(level int) string {
		if level == 0 {
			return "1"
		}
		var parts []string
		for range random.IntN(5) + 12*(random.IntN(10)/9) {
			parts = append(parts, value(level-1))
		}
		if random.IntN(3) == 0 {
			return "[" + strings.Join(parts, ",") + "]"
		}
		for i := range parts {
			parts[i] = fmt.Sprintf("%q:%s", string(rune('a'+random.IntN(12))), parts[i])
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	for range 2000 {
		text := value(4)
		if want := theirs(text); len(want) < 100 && !slices.Equal(ours(t, text), want) {
			t.Fatalf("%s:\n%v, want\n%v", text, ours(t, text), want)
		}
	}
}

func TestDuplicatesAreBounded(t *testing.T) {
	many := "{" + strings.Repeat(`"a":{"b":1,"b":2,"b":3},`, 1000) + `"c":1}`
	if got := ours(t, many); len(got) != 2 {
		t.Errorf("Duplicates of 1000 fields a, each with b three times, = %d paths, want 2", len(got))
	}
	var long strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&long, `"%d":1,"%d":1,`, i, i)
	}
	text := `{"` + strings.Repeat("x", 30_000) + `":{` + strings.TrimSuffix(long.String(), ",") + `}}`
	if got := len(ours(t, text)); got != 3 {
		t.Errorf("%d paths of 30 kB", got)
	}
}
