package server

// Bounded is bounded.
var Bounded = bounded
