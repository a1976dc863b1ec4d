package tutorial

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A step is one thing that a reader of the document does: exactly one of file, command and interrupt
// is set.
type step struct {
	line int // in the document, from 1

	file, text string // write text to file

	command string   // run a command, which prints output unless that is empty
	output  []string // its lines
	stays   bool     // the command is the last one in a terminal other than the first, and runs on

	interrupt bool // press Ctrl-C

	terminal string // first, second or third
}

var (
	fileName     = regexp.MustCompile(`^\*\*([\w.]+)\*\*$`)
	terminalName = regexp.MustCompile(`\b(first|second|third) terminal\b`)
)

const (
	fence  = "```"
	indent = "    "
	prompt = indent + "$ "
)

// parse returns the steps of a document.
//
// A fenced block is a file, whose name is in the line before it, bold and alone. In an indented block,
// lines that begin with "$ " are commands, and the other lines are what they print. The paragraph before
// names the terminal, if it is not the first. A paragraph with Ctrl-C interrupts what runs in the terminals
// that it names, in that order.
func parse(text string) ([]step, error) {
	var steps []step
	lines := strings.Split(text, "\n")
	terminal, before := "first", "" // before is the last line that is not empty
	fresh := true                   // the next line of text begins a paragraph
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, fence):
			name := fileName.FindStringSubmatch(before)
			end := slices.Index(lines[i+1:], fence)
			if name == nil || end < 0 {
				return nil, fmt.Errorf("line %d: a block has an end and, in the line before it, the name of its file: %q", i+1, before)
			}
			body := lines[i+1 : i+1+end]
			steps = append(steps, step{line: i + 1, file: name[1], text: strings.Join(body, "\n") + "\n"})
			i += 1 + end
		case strings.HasPrefix(line, prompt):
			steps = append(steps, step{line: i + 1, command: strings.TrimPrefix(line, prompt), terminal: terminal})
		case strings.HasPrefix(line, indent):
			if len(steps) == 0 || steps[len(steps)-1].command == "" {
				return nil, fmt.Errorf("line %d: no command prints %q", i+1, line)
			}
			last := &steps[len(steps)-1]
			last.output = append(last.output, strings.TrimPrefix(line, indent))
		case line != "":
			if fresh {
				terminal = "first"
			}
			for _, m := range terminalName.FindAllStringSubmatch(line, -1) {
				terminal = m[1]
				if strings.Contains(line, "Ctrl-C") {
					steps = append(steps, step{line: i + 1, interrupt: true, terminal: terminal})
				}
			}
		}
		fresh = line == "" || strings.HasPrefix(line, fence)
		if line != "" {
			before = line
		}
	}
	for i := range steps {
		next := i + 1
		others := next < len(steps) && steps[next].command != "" && steps[next].terminal == steps[i].terminal
		steps[i].stays = steps[i].command != "" && steps[i].terminal != "first" && !others
	}
	return steps, nil
}

// varying are the parts of outputs that differ from run to run, and what stands for them.
var varying = []struct {
	pattern *regexp.Regexp
	stands  string
}{
	{regexp.MustCompile(`\b(\d+(\.\d+)?(m|s|ms))+\b`), "TIME"},
	{regexp.MustCompile(`\b127\.0\.0\.1:\d+\b`), "ADDRESS"},
	{regexp.MustCompile(`\bblog-[0-9a-z]{8,10}-[0-9a-z]{5}\b`), "POD"},
	{regexp.MustCompile(`\s+`), " "}, // columns are as wide as their widest cell
}

// plain returns a line of output without what varies.
func plain(line string) string {
	for _, v := range varying {
		line = v.pattern.ReplaceAllString(line, v.stands)
	}
	return strings.TrimSpace(line)
}

// compare returns an error unless the lines that were printed are those that the document shows, apart
// from empty ones and from what varies. A program that has not ended may print more.
func compare(want []string, printed string, ended bool) error {
	got := slices.DeleteFunc(strings.Split(printed, "\n"), func(line string) bool { return line == "" })
	if !ended && len(got) > len(want) {
		got = got[:len(want)]
	}
	if slices.Equal(mapped(got), mapped(want)) {
		return nil
	}
	return fmt.Errorf("it printed:\n%s\nwant, apart from times, addresses and names of pods:\n%s", printed, strings.Join(want, "\n"))
}

func mapped(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = plain(line)
	}
	return out
}

// TestParse: steps have their order, terminals and outputs.
func TestParse(t *testing.T) {
	const text = "Make it:\n\n    $ mkdir a\n    $ ls\n    a\n\n    b\n\n**x.go**\n```go\npackage x\n```\n\n" +
		"In a second terminal:\n\n    $ cd a\n    $ serve\n    ready\n\nThen:\n\n    $ call\n\nPress Ctrl-C in the second terminal.\n"
	want := []step{
		{line: 3, command: "mkdir a", terminal: "first"},
		{line: 4, command: "ls", output: []string{"a", "b"}, terminal: "first"},
		{line: 10, file: "x.go", text: "package x\n"},
		{line: 16, command: "cd a", terminal: "second"},
		{line: 17, command: "serve", output: []string{"ready"}, stays: true, terminal: "second"},
		{line: 22, command: "call", terminal: "first"},
		{line: 24, interrupt: true, terminal: "second"},
	}
	if got, err := parse(text); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("parse(%q) =\n%+v, %v, want\n%+v", text, got, err, want)
	}
	for _, bad := range []string{"no name\n```go\n```\n", "**x.go**\n```go\npackage x\n", "    output of nothing\n"} {
		if got, err := parse(bad); err == nil {
			t.Errorf("parse(%q) = %+v, nil, want an error", bad, got)
		}
	}
}

// TestCompare: outputs may differ in what varies, and in nothing else.
func TestCompare(t *testing.T) {
	const table = "NAME                    READY   AGE\nblog-7b9c5d6f4c-4xkzq   1/1     4s\n"
	want := strings.Split(strings.TrimSpace(table), "\n")
	for printed, same := range map[string]bool{
		table: true,
		"NAME READY AGE\n\nblog-5d4f8b7c9-abcde 1/1 1m12s\n": true,
		strings.ReplaceAll(table, "1/1", "0/1"):              false,
		strings.ReplaceAll(table, "blog", "shop"):            false,
		table + "blog-7b9c5d6f4c-9mhtw   1/1     4s\n":       false,
		"NAME                    READY   AGE\n":              false,
		strings.ReplaceAll(table, "4s", "<unknown>"):         false,
		"": false,
	} {
		if err := compare(want, printed, true); (err == nil) != same {
			t.Errorf("compare(%q) = %v, want that they are the same: %v", printed, err, same)
		}
	}
	if err := compare(want, table+"and more\n", false); err != nil {
		t.Errorf("compare of a program that prints more = %v, want nil", err)
	}
}
