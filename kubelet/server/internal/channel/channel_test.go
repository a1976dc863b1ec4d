package channel

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func named(t testing.TB, name string) Protocol {
	p, ok := Choose([]string{"other", name})
	if !ok || p.Name != name {
		t.Fatalf("Choose(other, %s) = %+v, %v, want the latter", name, p, ok)
	}
	return p
}

func TestChoose(t *testing.T) {
	for _, c := range []struct{ offered, want string }{
		{"v5.channel.k8s.io", "v5.channel.k8s.io"},
		{"v4.channel.k8s.io v5.channel.k8s.io", "v5.channel.k8s.io"},
		{"v4.base64.channel.k8s.io", "v4.base64.channel.k8s.io"},
		{"v4.base64.channel.k8s.io v4.channel.k8s.io", "v4.base64.channel.k8s.io"},
		{"v9.channel.k8s.io v4.channel.k8s.io channel.k8s.io", "v4.channel.k8s.io"},
		{"channel.k8s.io v4.channel.k8s.io", ""},
		{"channel.k8s.io v5.channel.k8s.io", "v5.channel.k8s.io"},
		{"channel.k8s.io base64.channel.k8s.io v3.channel.k8s.io", ""},
		{"V5.channel.k8s.io", ""},
		{"", ""},
	} {
		p, ok := Choose(strings.Fields(c.offered))
		if p.Name != c.want || ok != (c.want != "") {
			t.Errorf("Choose(%q) = %q, %v, want %q", c.offered, p.Name, ok, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	const v5, v4, text = "v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io"
	for _, c := range []struct {
		protocol, message string
		want              Message
		data              string
		fails             bool
	}{
		{protocol: v5, message: "\x00input", data: "input"},
		{protocol: v5, message: "\x00", data: ""},
		{protocol: v5, message: "\x04{}", want: Message{Channel: Resize}, data: "{}"},
		{protocol: v5, message: "\xff\x00", want: Message{Close: true}},
		{protocol: v5, message: "\xff\x04", want: Message{Channel: Resize, Close: true}},
		{protocol: v5, message: ""},
		{protocol: v5, message: "\x05lost"},
		{protocol: v5, message: "0lost"},
		{protocol: v5, message: "\xff", fails: true},
		{protocol: v5, message: "\xff\x05", fails: true},
		{protocol: v5, message: "\xff\xff", fails: true},
		{protocol: v5, message: "\xff\x00\x00", fails: true},
		{protocol: v4, message: "\x00input", data: "input"},
		{protocol: v4, message: "\xff\x00"},
		{protocol: text, message: "0aW5wdXQ=", data: "input"},
		{protocol: text, message: "4e30=", want: Message{Channel: Resize}, data: "{}"},
		{protocol: text, message: "5e30="},
		{protocol: text, message: "\x00e30="},
		{protocol: text, message: "0not base64", fails: true},
		{protocol: text, message: "0aW5wdX", fails: true},
	} {
		for name, read := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "in bytes": iotest.OneByteReader, "with its end": iotest.DataErrReader,
		} {
			m, err := named(t, c.protocol).Parse(read(strings.NewReader(c.message)))
			var data []byte
			if err == nil && m.Data != nil {
				data, err = io.ReadAll(m.Data)
			}
			if (err != nil) != c.fails || !c.fails && (m.Channel != c.want.Channel || m.Close != c.want.Close || string(data) != c.data) {
				t.Errorf("%s, %s: Parse(%q) = %+v with the data %q, %v; want %+v, %q, fails %v",
					c.protocol, name, c.message, m, data, err, c.want, c.data, c.fails)
			}
		}
	}
}

// TestParseErrors: an error of the connection is not the end of a message.
func TestParseErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, message := range []string{"", "\xff", "\xff\x00", "\x00in"} {
		m, err := named(t, "v5.channel.k8s.io").Parse(io.MultiReader(strings.NewReader(message), iotest.ErrReader(broken)))
		if err == nil && m.Data != nil {
			_, err = io.ReadAll(m.Data)
		}
		if !errors.Is(err, broken) {
			t.Errorf("Parse(%q, then an error) = %+v, %v, want %v", message, m, err, broken)
		}
	}
}

// FuzzParse: any message has a channel that exists, its data are those that were sent, and what
// Append makes of them is parsed to the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "\x00in", "\xff\x00", "\xff\x09", "4e30=", "\x05"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		for _, p := range Protocols() {
			m, err := p.Parse(bytes.NewReader(message))
			if err != nil || m.Data == nil {
				continue
			}
			if m.Channel >= channels || m.Close {
				t.Fatalf("%s: Parse(%q) = %+v, want a channel below %d, and data only without Close", p.Name, message, m, channels)
			}
			data, err := io.ReadAll(m.Data)
			if err != nil {
				continue
			}
			if want := message[1:]; !p.Text && !bytes.Equal(data, want) {
				t.Errorf("%s: %q, want %q", p.Name, data, want)
			}
			again, err := p.Parse(bytes.NewReader(p.Append(nil, m.Channel, data)))
			if err != nil || again.Channel != m.Channel {
				t.Fatalf("%s: Parse(Append(channel %d, %q)) = %+v, %v, want the same channel", p.Name, m.Channel, data, again, err)
			}
			if got, err := io.ReadAll(again.Data); err != nil || !slices.Equal(got, data) {
				t.Errorf("%s: %q, %v, want %q", p.Name, got, err, data)
			}
		}
	})
}

func TestAppend(t *testing.T) {
	if got := named(t, "v5.channel.k8s.io").Append([]byte("x"), Stdout, []byte("out")); string(got) != "x\x01out" {
		t.Errorf("Append(x, Stdout, out) = %q, want %q", got, "x\x01out")
	}
	if got := named(t, "v4.base64.channel.k8s.io").Append(nil, Error, []byte("no")); string(got) != "3"+base64.StdEncoding.EncodeToString([]byte("no")) {
		t.Errorf("Append(nil, Error, no) = %q, want 3 and no in base64", got)
	}
}

func TestChooseForward(t *testing.T) {
	all := []string{"v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io"}
	for _, c := range []struct {
		offered []string
		ports   int
		want    string
	}{{all, 1, "v4.channel.k8s.io"}, {all[:1], 1, ""}, {all[2:], 127, "v4.base64.channel.k8s.io"}, {all, 128, ""}, {nil, 1, ""}} {
		if p, ok := ChooseForward(c.offered, c.ports); p.Name != c.want || ok != (c.want != "") {
			t.Errorf("ChooseForward(%q, %d) = %q, %v, want %q", c.offered, c.ports, p.Name, ok, c.want)
		}
	}
	p, _ := ChooseForward(all, 20)
	if m, err := p.Parse(strings.NewReader("\x26x")); err != nil || m.Channel != 38 || m.Data == nil {
		t.Errorf("Parse(channel 38 of 20 ports) = %+v, %v, want its data", m, err)
	}
	if m, err := p.Parse(strings.NewReader("\x28x")); err != nil || m.Data != nil {
		t.Errorf("Parse(channel 40 of 20 ports) = %+v, %v, want nothing", m, err)
	}
}
