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

// What a line says it is. A line without apiVersion is v0.
const (
	kind    = "Policy"
	v0      = "abac.authorization.kubernetes.io/v0"
	v1beta1 = "abac.authorization.kubernetes.io/v1beta1"
)

// Parse reads a policy file: one JSON object a line, blank lines and lines that
// begin with # left out. The first bad line is an error with its number; no
// policies are returned then. A line has at most 64 KiB.
//
// Unlike kube-apiserver it takes no unknown fields and no field twice. There a
// policy means more when a restriction is misspelled, and a spec without
// apiVersion and kind allows everything to everybody.
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

// parseSpec is of a v1beta1 policy. One without a spec is for nobody.
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

// widen says in today's terms what a v0 policy means by what it leaves out.
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

// object takes a JSON object apart. encoding/json would take fields in any case,
// and of a field that is there twice the last.
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

// syntax is an error of JSON that ends too early, or err.
func syntax(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// members are the fields of a JSON object, each until it is taken.
type members map[string]json.RawMessage

// take moves fields into what targets point to; null leaves it as it is.
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

// only takes the fields in targets and fails if there are others.
func (m members) only(targets map[string]any) error {
	if err := m.take(targets); err != nil {
		return err
	}
	for name := range m {
		return fmt.Errorf("unknown field %q", name)
	}
	return nil
}
