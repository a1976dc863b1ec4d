package keyed_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/authn/internal/keyed"
)

func Example() {
	t := keyed.NewTable[string](1)
	t.Add("s3cret", "jane")
	fmt.Println(t.Get("s3cret"))
	fmt.Println(t.Get("s3cre"))
	// Output:
	// jane true
	//  false
}

func TestTable(t *testing.T) {
	table := keyed.NewTable[int](0)
	long := strings.Repeat("x", 10_000)
	secrets := []string{"a", "", "b", long, long + "y", strings.Repeat("z", 128), strings.Repeat("z", 129)}
	for i, secret := range secrets {
		if !table.Add(secret, i) {
			t.Errorf("secret %d was taken already", i)
		}
	}
	if table.Add("a", 99) {
		t.Error("the same secret twice")
	}
	for i, secret := range secrets {
		if got, ok := table.Get(secret); !ok || got != i {
			t.Errorf("secret %d: %d, %v", i, got, ok)
		}
	}
	for _, guess := range []string{"A", "a ", "a\x00", long[1:], strings.Repeat("z", 130)} {
		if got, ok := table.Get(guess); ok {
			t.Errorf("a guess of %d bytes found %d", len(guess), got)
		}
	}
}

// TestDigest: the parts of a secret cannot be shifted into each other, however
// long they are, and another key makes other digests.
func TestDigest(t *testing.T) {
	key, other := keyed.NewKey(), keyed.NewKey()
	long := strings.Repeat("x", 4000)
	seen := map[keyed.Digest]string{}
	for _, parts := range [][]string{
		{}, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"", "ab"}, {"ab", ""}, {long}, {long, "a"}, {long + "a"}, {"a" + long}, {"a", long},
		{"\x00\x00\x00\x00\x00\x00\x00\x00"}, {"", "", ""},
	} {
		name := fmt.Sprintf("%.20q", parts)
		for _, d := range []keyed.Digest{key.Digest(parts...), other.Digest(parts...)} {
			if before, taken := seen[d]; taken {
				t.Errorf("%s has the digest of %s", name, before)
			}
			seen[d] = name
		}
		if first, second := key.Digest(parts...), key.Digest(parts...); first != second {
			t.Errorf("%s has two digests", name)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	table, key := keyed.NewTable[int](1), keyed.NewKey()
	for _, n := range []int{16, 128, 1500} {
		secret := strings.Repeat("x", n)
		table.Add(secret, n)
		if allocs := testing.AllocsPerRun(100, func() { table.Get(secret); key.Digest(secret) }); allocs != 0 {
			t.Errorf("%d bytes: %v allocations", n, allocs)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	for _, n := range []int{32, 128, 1000} {
		table := keyed.NewTable[int](1)
		secret := strings.Repeat("x", n)
		table.Add(secret, n)
		b.Run(fmt.Sprintf("bytes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				table.Get(secret)
			}
		})
	}
}

func BenchmarkDigest(b *testing.B) {
	key := keyed.NewKey()
	for _, n := range []int{32, 1000} {
		secret := strings.Repeat("x", n)
		b.Run(fmt.Sprintf("bytes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				key.Digest(secret)
			}
		})
	}
}
