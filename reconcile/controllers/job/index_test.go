package job

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestIndexesText(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		"1,3-5,7":              "1,3-5,7",
		"3-4":                  "3,4",
		"5,1,2,3":              "1-3,5",
		"0-3,2-6":              "0-6",
		"8-20":                 "8,9",
		"12":                   "",
		"x,1,2-y,-3,5-4,3-3-3": "1",
	} {
		if got := parseIndexes(text, 10).String(); got != want {
			t.Errorf("%q is read as %q, want %q", text, got, want)
		}
	}
}

// TestIndexesModel compares a set with a plain slice of booleans.
func TestIndexesModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const limit = 40
	random := func() (s indexes, model [limit]bool) {
		for range r.IntN(30) {
			n := r.IntN(limit)
			s, model[n] = s.with(n), true
		}
		return s, model
	}
	for range 2000 {
		a, inA := random()
		b, inB := random()
		both, count := 0, 0
		var missing []int
		union := a.union(b)
		for n := range limit {
			if inA[n] && inB[n] {
				both++
			}
			if inA[n] {
				count++
			} else {
				missing = append(missing, n)
			}
			if a.has(n) != inA[n] || union.has(n) != (inA[n] || inB[n]) {
				t.Fatalf("%d in %v, %v", n, a, union)
			}
		}
		if a.count() != count || a.shared(b) != both {
			t.Fatalf("%v: count %d, want %d; shares %d with %v, want %d", a, a.count(), count, a.shared(b), b, both)
		}
		n := r.IntN(limit)
		if got := a.missing(n, limit); !slices.Equal(got, missing[:min(n, len(missing))]) {
			t.Fatalf("%v misses %v", a, got)
		}
		if back := parseIndexes(a.String(), limit); !slices.Equal(back, a) {
			t.Fatalf("%v is read back as %v", a, back)
		}
	}
}

func FuzzParseIndexes(f *testing.F) {
	f.Add("1,3-5,7", 10)
	f.Add("9223372036854775807-9223372036854775807,0-", 1<<62)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		s := parseIndexes(text, limit)
		for i, r := range s {
			if r.first < 0 || r.first > r.last || r.last >= limit || i > 0 && s[i-1].last >= r.first-1 {
				t.Fatalf("parseIndexes(%q, %d) = %v, want ranges in order, apart from each other, from 0 to below the limit", text, limit, s)
			}
		}
		if back := parseIndexes(s.String(), limit); !slices.Equal(back, s) {
			t.Fatalf("%v is read back as %v", s, back)
		}
	})
}
