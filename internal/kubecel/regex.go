package kubecel

import (
	"context"
	"errors"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/pattern"
)

// A searcher searches a text. rest holds the maximum number of results, if any.
type searcher func(b *budget.Budget, p *pattern.Pattern, text string, rest []ref.Val) (ref.Val, error)

// searchers holds the functions whose second argument is a regular expression.
var searchers = map[string]searcher{"matches": matchesIn, "find": findIn, "findAll": findAllIn}

func matchesIn(b *budget.Budget, p *pattern.Pattern, text string, _ []ref.Val) (ref.Val, error) {
	ok, err := p.Match(b, text)
	return types.Bool(ok), err
}

func findIn(b *budget.Budget, p *pattern.Pattern, text string, _ []ref.Val) (ref.Val, error) {
	if err := b.Work(p.Bound(len(text))); err != nil {
		return nil, err
	}
	return types.String(p.Regexp().FindString(text)), nil
}

func findAllIn(b *budget.Budget, p *pattern.Pattern, text string, rest []ref.Val) (ref.Val, error) {
	most := -1
	if len(rest) > 0 {
		n, ok := rest[0].(types.Int)
		if !ok {
			return types.MaybeNoSuchOverloadErr(rest[0]), nil
		}
		most = int(n)
	}
	var found []string
	var err error
	func() {
		defer func() {
			if cause := recover(); cause != nil && cause != errFoundAll {
				panic(cause)
			}
		}()
		if err = b.Work(p.Bound(len(text))); err != nil || most == 0 {
			return
		}
		left := len(text)
		// Each further match may read all of the rest.
		p.Regexp().ReplaceAllStringFunc(text, func(match string) string {
			if found = append(found, match); len(found) == most {
				panic(errFoundAll)
			}
			left -= len(match)
			if err = b.Work(p.Bound(left)); err != nil {
				panic(errFoundAll)
			}
			return ""
		})
	}()
	return types.NewStringList(types.DefaultTypeAdapter, found), err
}

// errFoundAll ends a search.
var errFoundAll = errors.New("enough matches were found")

// search returns a function that searches its first argument for the second, which it compiles unless that has been
// done.
func search(compiled *pattern.Pattern, in searcher) func(...ref.Val) ref.Val {
	return func(arguments ...ref.Val) ref.Val {
		result, err := searchIn(budget.From(context.Background()), compiled, in, arguments)
		if err != nil {
			return types.WrapErr(err)
		}
		return result
	}
}

// searchIn searches arguments. It fails if the budget does not cover that.
func searchIn(b *budget.Budget, compiled *pattern.Pattern, in searcher, arguments []ref.Val) (ref.Val, error) {
	if compiled == nil {
		text, ok := arguments[1].(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(arguments[1]), nil
		}
		var err error
		if compiled, err = pattern.Compile(b, string(text)); errors.Is(err, budget.ErrExceeded) {
			return nil, err
		} else if err != nil {
			return types.NewErr("Illegal regex: %v", err), nil
		}
	}
	text, ok := arguments[0].(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(arguments[0]), nil
	}
	return in(b, compiled, string(text), arguments[2:])
}
