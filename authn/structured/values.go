package structured

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/planekit/planekit/authn/user"
)

// newClaims returns the value of claims in expressions. Numbers are doubles.
func newClaims(claims map[string]json.RawMessage) ref.Val {
	values := make(map[string]any, len(claims))
	for name, raw := range claims {
		var v any
		if json.Unmarshal(raw, &v) == nil { // which they are a part of JSON for
			values[name] = v
		}
	}
	return newObject("kubernetes.claims", values)
}

func newUser(u *user.Info) ref.Val {
	groups, extra := u.Groups, u.Extra
	if groups == nil {
		groups = []string{}
	}
	if extra == nil {
		extra = map[string][]string{}
	}
	return newObject("kubernetes.UserInfo", map[string]any{"username": u.Name, "uid": u.UID, "groups": groups, "extra": extra})
}

// object is a variable. It is a map without size and the operator in, as in kube-apiserver.
type object struct {
	fields
	of *types.Type
}

func newObject(name string, values map[string]any) ref.Val {
	all := types.DefaultTypeAdapter.NativeToValue(values).(traits.Mapper) // the type of maps in CEL
	return object{fields{all}, cel.ObjectType(name, traits.IndexerType|traits.FieldTesterType|traits.IterableType)}
}

func (o object) Type() ref.Type { return o.of }

// escaped makes the fields of v, at any depth, accessible under escaped names where their names are
// not CEL identifiers: claims.foo__dot__bar is the claim foo.bar
// (https://kubernetes.io/docs/reference/using-api/cel/#escaping).
func escaped(v ref.Val) ref.Val {
	switch v := v.(type) {
	case traits.Mapper:
		return fields{v}
	case traits.Lister:
		return items{v}
	}
	return v
}

type fields struct{ traits.Mapper }

func (f fields) Find(key ref.Val) (ref.Val, bool) {
	if text, ok := key.(types.String); ok {
		if name, ok := unescape(string(text)); ok {
			key = types.String(name)
		}
	}
	v, ok := f.Mapper.Find(key)
	return escaped(v), ok
}

func (f fields) Get(key ref.Val) ref.Val {
	v, ok := f.Find(key)
	if !ok {
		return types.ValOrErr(v, "no such key: %v", key)
	}
	return v
}

func (f fields) Contains(key ref.Val) ref.Val {
	_, ok := f.Find(key)
	return types.Bool(ok)
}

func (f fields) IsSet(key ref.Val) ref.Val { return f.Contains(key) }

type items struct{ traits.Lister }

func (i items) Get(index ref.Val) ref.Val { return escaped(i.Lister.Get(index)) }

func (i items) Iterator() traits.Iterator { return iterator{i.Lister.Iterator()} }

type iterator struct{ traits.Iterator }

func (i iterator) Next() ref.Val { return escaped(i.Iterator.Next()) }

// reserved lists words of CEL that are escaped with underscores.
var reserved = []string{
	"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
	"loop", "package", "namespace", "return", "var", "void", "while",
}

var (
	sequences = regexp.MustCompile(`__[^_]+__`)
	symbols   = map[string]string{"__underscores__": "__", "__dot__": ".", "__dash__": "-", "__slash__": "/"}
)

// unescape returns the name that an escaped name stands for, and false if it is not escaped.
func unescape(name string) (string, bool) {
	if !strings.Contains(name, "__") {
		return "", false
	}
	right := true
	out := sequences.ReplaceAllStringFunc(name, func(sequence string) string {
		if symbol, ok := symbols[sequence]; ok {
			return symbol
		}
		word := strings.Trim(sequence, "_")
		right = right && sequence == name && slices.Contains(reserved, word)
		return word
	})
	return out, right && out != name
}
