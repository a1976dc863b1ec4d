package structural

import (
	"errors"
	"fmt"
	"strings"

	"github.com/planekit/planekit/kinds/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	errNoField = errors.New("does not refer to a valid field")
	errPathEnd = errors.New("unexpected end of JSON path")
)

// FieldPath returns the path of a field below values of s: a JSON path of names, such as .a.b, and
// of keys of maps, such as .a['b']. It fails if s has no such field.
func FieldPath(s *apiextensions.JSONSchemaProps, text string) (*field.Path, error) {
	var path *field.Path
	err := walk(text, func(name string) error {
		switch {
		case s != nil && len(s.Properties) > 0:
			part, ok := s.Properties[name]
			if !ok {
				return errNoField
			}
			path, s = path.Child(name), &part
		case s != nil && s.AdditionalProperties != nil:
			path, s = path.Key(name), s.AdditionalProperties.Schema
		default:
			return errNoField
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return path, nil
}

// FieldPath is [FieldPath] of a compiled schema.
func (s *Schema) FieldPath(text string) (*field.Path, error) {
	var path *field.Path
	err := walk(text, func(name string) error {
		switch {
		case s != nil && len(s.Properties) > 0:
			part, ok := s.Properties[name]
			if !ok {
				return errNoField
			}
			path, s = path.Child(name), part
		case s != nil && s.HasAdditional:
			path, s = path.Key(name), s.Additional
		default:
			return errNoField
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return path, nil
}

// walk calls step with each name and key of a path.
func walk(text string, step func(name string) error) error {
	for rest := text; rest != ""; {
		var token string
		token, rest = cutToken(rest)
		switch token {
		case ".":
			if rest == "" {
				return errPathEnd
			}
			if token, rest = cutToken(rest); token != "" {
				if err := step(token); err != nil {
					return err
				}
			}
		case "[":
			if rest == "" {
				return errPathEnd
			}
			token, rest = cutToken(rest)
			if len(token) < 2 || token[0] != '\'' || token[len(token)-1] != '\'' {
				return fmt.Errorf("expected single quoted string but got %s", token)
			}
			key, err := unquote(token[1 : len(token)-1])
			if err != nil {
				return err
			}
			if err := step(key); err != nil {
				return err
			}
			if rest == "" {
				return errPathEnd
			}
			if token, rest = cutToken(rest); token != "]" {
				return fmt.Errorf("expected ] but got %s", token)
			}
		default:
			return fmt.Errorf("expected [ or . but got: %s", token)
		}
	}
	return nil
}

// cutToken returns the first token of text, which is not empty, and the rest.
func cutToken(text string) (token, rest string) {
	end := strings.IndexAny(text, ".[]")
	if text[0] == '\'' {
		end = -1
		for i := 1; i < len(text) && end < 0; i++ {
			if text[i] == '\'' && text[i-1] != '\\' {
				end = i + 1
			}
		}
	}
	switch end {
	case -1:
		return text, ""
	case 0:
		end = 1
	}
	return text[:end], text[end:]
}

// escapes holds what stands for the character after a backslash.
var escapes = map[byte]byte{'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '\'': '\'', '\\': '\\'}

func unquote(text string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\\' && i+1 < len(text) {
			i++
			var ok bool
			if c, ok = escapes[text[i]]; !ok {
				return "", fmt.Errorf("invalid string literal: invalid escape char \\%c", text[i])
			}
		}
		out.WriteByte(c)
	}
	return out.String(), nil
}
