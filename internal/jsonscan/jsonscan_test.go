package jsonscan_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/jsonscan"
)

const depth = 100

func ExampleCheck() {
	fmt.Println(jsonscan.Check(context.Background(), []byte(`{"a":[[1]]}`), 2))
	// Output: exceeded max depth: more than 2 levels of nesting at byte 6
}

var samples = []string{`{"a":[1,2.5e-3,"x\u00e9\n"],"b":{"c":null,"d":false}}`, `[1,]`, `{"a":1,}`, `-`, `01`, `"\x"`, "\"\x01\"", ` null `, `{"a" :1}`, `[]]`, `{,}`, `1.`, `1e`, `nul`, ``, `"`, `"\u12"`, "\"\xff\""}

// TestCheckIsTheStandardLibrarys: Check and encoding/json accept the same texts.
func TestCheckIsTheStandardLibrarys(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 50_000 {
		text := []byte(samples[random.IntN(len(samples))])
		for n := random.IntN(4); n > 0 && len(text) > 0; n-- {
			const letters = "{}[],:\"\\u0-1.eEtn \t\x00"
			text[random.IntN(len(text))] = letters[random.IntN(len(letters))]
		}
		compare(t, text)
	}
}

func compare(t *testing.T, text []byte) {
	t.Helper()
	err := jsonscan.Check(context.Background(), text, depth)
	if json.Valid(text) != (err == nil) && !errors.Is(err, jsonscan.ErrTooDeep) {
		t.Fatalf("%q: %v, the standard library says %v", text, err, json.Valid(text))
	}
	if err == nil && text[jsonscan.SkipSpace(text, 0)] == '"' {
		quoted := text[jsonscan.SkipSpace(text, 0):]
		quoted = quoted[:jsonscan.SkipText(quoted, 0)]
		var want string
		if err := json.Unmarshal(quoted, &want); err != nil || jsonscan.Unquote(quoted) != want || string(jsonscan.Plain(quoted)) != want {
			t.Fatalf("%q is %q, want %q (%v)", quoted, jsonscan.Unquote(quoted), want, err)
		}
	}
}

func TestDepth(t *testing.T) {
	for levels, want := range map[int]error{depth: nil, depth + 1: jsonscan.ErrTooDeep, 1 << 20: jsonscan.ErrTooDeep} {
		text := []byte(strings.Repeat("[", levels) + strings.Repeat("]", levels))
		if err := jsonscan.Check(context.Background(), text, depth); !errors.Is(err, want) {
			t.Errorf("%d levels: %v", levels, err)
		}
	}
}

func TestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	text := []byte("[" + strings.Repeat("1,", 10_000) + "1]")
	if err := jsonscan.Check(ctx, text, depth); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) { compare(t, text) })
}
