package house

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rendered draws a picture with its fonts, as wide as that.
func rendered(t *testing.T, svg string, width int) image.Image {
	t.Helper()
	program, err := exec.LookPath("rsvg-convert")
	if err != nil {
		t.Skip("rsvg-convert (librsvg2-bin) is not installed")
	}
	run := exec.CommandContext(t.Context(), program, "--width", strconv.Itoa(width))
	run.Stdin = strings.NewReader(svg)
	data, err := run.Output()
	if err != nil {
		t.Fatalf("rsvg-convert --width %d: %v", width, err)
	}
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("decode the picture of rsvg-convert --width %d: %v", width, err)
	}
	return picture
}

// TestTextInBoxes draws the texts without their boxes, on a screen and on a telephone, and looks for ink that is in no box.
func TestTextInBoxes(t *testing.T) {
	ink := colours{text: "#000000", code: "#000000", page: "#ffffff"}
	for name, p := range pictures(t) {
		for _, width := range []int{pictureWidth, 390} {
			texts := &picture{title: p.title, texts: p.texts}
			drawn := rendered(t, texts.svg(ink.style()), width)
			if bounds := drawn.Bounds(); bounds.Dx() != width {
				t.Errorf("%s: rsvg-convert draws %d pixels, want %d", name, bounds.Dx(), width)
			}
			if where, ok := stray(drawn, p.texts); ok {
				t.Errorf("%s, %d pixels wide: a text is drawn at %v of the picture, want it in its box", name, width, where)
			}
		}
	}
}

// stray returns a point of the picture that has ink and is in no box of a text.
func stray(drawn image.Image, texts []words) (where image.Point, found bool) {
	bounds := drawn.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			p := image.Pt(x*pictureWidth/bounds.Dx(), y*pictureWidth/bounds.Dx())
			inside := func(w words) bool { return p.In(image.Rect(w.in.x, w.in.y, w.in.x+w.in.w, w.in.y+w.in.h)) }
			if luminance(drawn.At(x, y)) < 0.8 && !slices.ContainsFunc(texts, inside) {
				return p, true
			}
		}
	}
	return image.Point{}, false
}

// TestStrayText: a text that is longer than its box is found.
func TestStrayText(t *testing.T) {
	p := &picture{}
	p.text(box{100, 100, 60, 40}, 5, 25, "", "short")
	ink := colours{text: "#000000", code: "#000000", page: "#ffffff"}.style()
	if where, found := stray(rendered(t, p.svg(ink), pictureWidth), p.texts); found {
		t.Errorf("stray(short) = %v, want nothing", where)
	}
	p.text(box{100, 200, 60, 40}, 5, 25, "", "longer than that")
	if where, found := stray(rendered(t, p.svg(ink), pictureWidth), p.texts); !found || where.X < 160 || where.Y < 200 {
		t.Errorf("stray(longer) = %v, %t, want a point behind x=160", where, found)
	}
}

// TestTextReads checks the contrast of what is drawn in each box, light and dark, on a screen and on a telephone.
func TestTextReads(t *testing.T) {
	for name, p := range pictures(t) {
		for mode, c := range map[string]colours{"light": light, "dark": dark} {
			for _, width := range []int{pictureWidth, 390} {
				drawn := rendered(t, p.svg(c.style()), width)
				scale := float64(width) / pictureWidth
				at := func(n int) int { return int(float64(n) * scale) }
				for _, w := range p.texts {
					least, most := 1.0, 0.0
					for y := at(w.y - 12); y <= at(w.y); y++ {
						for x := at(w.x); x < at(w.x+10*len(w.text)/2); x++ {
							l := luminance(drawn.At(x, y))
							least, most = min(least, l), max(most, l)
						}
					}
					want := 4.5
					if width < pictureWidth {
						want = 1.5 // its pixels are wider than the lines of letters
					}
					if contrast := (most + 0.05) / (least + 0.05); contrast < want {
						t.Errorf("%s, %s, %d pixels: %q has a contrast of %.1f, want %.1f", name, mode, width, w.text, contrast, want)
					}
				}
			}
		}
	}
}

// luminance returns the relative luminance of WCAG 2, from 0 to 1.
func luminance(c color.Color) float64 {
	r, g, b, a := c.RGBA()
	linear := func(v uint32) float64 {
		f := float64(v+0xffff-a) / 0xffff // over white, where the picture ends within a pixel
		if f > 0.04045 {
			return math.Pow((f+0.055)/1.055, 2.4)
		}
		return f / 12.92
	}
	return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
}
