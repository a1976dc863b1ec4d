package pattern_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/pattern"
)

func Example() {
	ctx := context.Background()
	p, err := pattern.Compile(budget.From(ctx), `^[a-z]+(-[a-z]+)*$`)
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Match(budget.From(ctx), strings.Repeat("long-", 100)+"name"))
	// Output: true <nil>
}

// expressions are tried with texts of their letters.
var expressions = []string{
	``, `a`, `^a`, `a$`, `^$`, `^(a|b)*c$`, `\ba`, `a\B`, `(?m)^b$`, `(?i)AB`, `(?s)a.b`, `a.b`, `[^a]`, `[a-c]{2,5}`, `(ab|c)+?d`, `^(.{0,5}[ab]){5}c$`, `\z`, `\x{e9}+`,
	`^\d{1,3}$`, `(a*)*b`, `(a|aa)+$`, `\W`, `(?i)k`, `x{0}`, `(|a)+b`, `a{3}`, `^(?:[^\n]|\n)*$`, `\pL+`, `.`, `(?m)$\n^`,
}

// TestMatch: the counting machine finds what package regexp finds, with texts of random letters.
func TestMatch(t *testing.T) {
	const seed = 1
	g := rand.New(rand.NewPCG(seed, 0))
	letters := []rune("aabbccdABK\n -é1x\u212a\xff\uFFFD")
	for _, text := range expressions {
		p, err := pattern.Compile(budget.From(t.Context()), text)
		if err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile(text)
		for range 300 {
			var in strings.Builder
			for range g.IntN(12) {
				in.WriteRune(letters[g.IntN(len(letters))])
			}
			in.WriteString(strings.Repeat("b", g.IntN(2)*600))
			if g.IntN(5) == 0 {
				in.WriteString("\xff")
			}
			got, err := p.Match(budget.New(t.Context(), budget.Default), in.String())
			if err != nil || got != want.MatchString(in.String()) {
				t.Fatalf("Match(%q, %q) = %v, %v, want %v", text, in.String(), got, err, !got)
			}
		}
	}
}

func FuzzMatch(f *testing.F) {
	for _, text := range expressions {
		f.Add(text, "aab\nc"+strings.Repeat("ab", 400))
	}
	f.Fuzz(func(t *testing.T, expression, text string) {
		if len(expression) > 1000 || len(text) > 2000 {
			return
		}
		want, errWant := regexp.Compile(expression)
		p, err := pattern.Compile(budget.From(t.Context()), expression)
		if errors.Is(err, budget.ErrExceeded) {
			return
		}
		if (err == nil) != (errWant == nil) || err != nil && err.Error() != errWant.Error() {
			t.Fatalf("Compile(%q) = %v, want %v", expression, err, errWant)
		}
		if err != nil {
			return
		}
		got, err := p.Match(budget.New(t.Context(), budget.Default), text)
		if err == nil && got != want.MatchString(text) {
			t.Errorf("Match(%q, %q) = %v, want %v", expression, text, got, !got)
		}
	})
}

// TestDearPatterns: what takes long is refused in little time, and so is what takes much memory.
func TestDearPatterns(t *testing.T) {
	began := time.Now()
	if _, err := pattern.Compile(budget.From(t.Context()), strings.Repeat("("+strings.Repeat("x", 50)+"){1000}", 30)); !errors.Is(err, budget.ErrExceeded) {
		t.Errorf("Compile of a program of 1,500,000 instructions = %v, want ErrExceeded", err)
	}
	p, err := pattern.Compile(budget.From(t.Context()), `^(.{0,30}[ab]){30}x$`)
	if err != nil {
		t.Fatal(err)
	}
	b := budget.New(t.Context(), budget.Default)
	for range 14_000 {
		if _, err = p.Match(b, strings.Repeat("ab", 100)); err != nil {
			break
		}
	}
	if !errors.Is(err, budget.ErrExceeded) {
		t.Errorf("14,000 matches = %v, want ErrExceeded", err)
	}
	t.Logf("refused after %v", time.Since(began))
}

// TestOrdinaryPatterns: what is matched in little time costs little.
func TestOrdinaryPatterns(t *testing.T) {
	for _, text := range []string{
		`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`,
		`^((25[0-5]|(2[0-4]|1\d|[1-9]|)\d)\.?\b){4}$|^([0-9a-fA-F]{1,4}:){1,7}:|([0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}$`,
	} {
		p, err := pattern.Compile(budget.From(t.Context()), text)
		if err != nil {
			t.Fatal(err)
		}
		b := budget.New(t.Context(), budget.Default)
		for i := range 8000 {
			if _, err := p.Match(b, fmt.Sprintf("10.%d.%d.7", i/256, i%256)); err != nil {
				t.Fatalf("match %d of %q: %v", i, text, err)
			}
		}
	}
}
