package abac

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/planekit/planekit/authn/user"
)

// The types of lines. A line without apiVersion is v0.
const (
	kind    = "Policy"
	v0      = "abac.authorization.kubernetes.io/v0"
	v1beta1 = "abac.authorization.kubernetes.io/v1beta1"
)

// Parse reads a policy file: one JSON object per line. Blank lines and lines that begin with # are
// ignored. A line has at most 64 KiB. Parse returns an error with the number of the first invalid
// line, and no policies.
//
// Unlike kube-apiserver, Parse refuses unknown and repeated fields. With kube-apiserver, a
// misspelled restriction grants more, and a spec without apiVersion and kind allows everything to
// every user.
func Parse(r io.Reader) ([]Policy, error) {
	var policies []Policy
	lines := bufio.NewScanner(r)
	number := 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		p, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("policy file: line %d: %w", number, err)
		}
		policies = append(policies, p)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("policy file: line %d: %w", number+1, err)
	}
	return policies, nil
}

func parseLine(line []byte) (Policy, error) {
	var apiVersion, is string
	var spec json.RawMessage
	var p Policy
	fields, err := object(line)
	if err != nil {
		return p, err
	}
	if err := fields.take(map[string]any{"apiVersion": &apiVersion, "kind": &is}); err != nil {
		return p, err
	}
	switch {
	case apiVersion == v1beta1 && is == kind:
		if err := fields.only(map[string]any{"spec": &spec}); err != nil {
			return p, err
		}
		return p, parseSpec(spec, &p)
	case apiVersion == v0 && is == kind, apiVersion == "" && (is == "" || is == kind):
		err := fields.only(map[string]any{
			"user": &p.User, "group": &p.Group, "readonly": &p.ReadOnly, "namespace": &p.Namespace, "resource": &p.Resource,
		})
		p.widen()
		return p, err
	}
	return p, fmt.Errorf("apiVersion %q and kind %q are not %s and %s", apiVersion, is, v1beta1, kind)
}

// parseSpec parses a v1beta1 policy. Without a spec it applies to no user.
func parseSpec(spec json.RawMessage, p *Policy) error {
	if len(spec) == 0 || string(spec) == "null" {
		return nil
	}
	fields, err := object(spec)
	if err == nil {
		err = fields.only(map[string]any{
			"user": &p.User, "group": &p.Group, "readonly": &p.ReadOnly, "apiGroup": &p.APIGroup,
			"namespace": &p.Namespace, "resource": &p.Resource, "nonResourcePath": &p.Path,
		})
	}
	if err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	return nil
}

// widen sets the unset properties of a v0 policy to what they mean.
func (p *Policy) widen() {
	if p.User == "" && p.Group == "" {
		p.Group = user.Authenticated
	}
	if p.Namespace == "" && p.Resource == "" {
		p.Path = "*"
	}
	if p.Namespace == "" {
		p.Namespace = "*"
	}
	if p.Resource == "" {
		p.Resource = "*"
	}
	p.APIGroup = "*"
}

// object splits a JSON object into its fields. encoding/json would ignore the case of names and use
// the last of repeated fields.
func object(data []byte) (members, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	tokens := json.NewDecoder(bytes.NewReader(data))
	open, err := tokens.Token()
	if err != nil {
		return nil, syntax(err)
	}
	if open != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	fields := members{}
	for tokens.More() {
		token, err := tokens.Token()
		if err != nil {
			return nil, syntax(err)
		}
		name, ok := token.(string)
		if !ok {
			return nil, errors.New("not a JSON object")
		}
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("field %q is there twice", name)
		}
		var value json.RawMessage
		if err := tokens.Decode(&value); err != nil {
			return nil, syntax(err)
		}
		fields[name] = value
	}
	if _, err := tokens.Token(); err != nil {
		return nil, syntax(err)
	}
	if rest := strings.TrimSpace(string(data[tokens.InputOffset():])); rest != "" {
		return nil, errors.New("there is something after the JSON object")
	}
	return fields, nil
}

// syntax returns a JSON error for input that ends early, or err.
func syntax(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// members holds the fields of a JSON object that have not been read yet.
type members map[string]json.RawMessage

// take reads fields into targets and removes them; null leaves a target unchanged.
func (m members) take(targets map[string]any) error {
	for name, target := range targets {
		value, ok := m[name]
		if !ok {
			continue
		}
		if err := json.Unmarshal(value, target); err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
		delete(m, name)
	}
	return nil
}

// only reads the fields in targets and fails if there are further fields.
func (m members) only(targets map[string]any) error {
	if err := m.take(targets); err != nil {
		return err
	}
	for name := range m {
		return fmt.Errorf("unknown field %q", name)
	}
	return nil
}
