package main

func Example() {
	main()
	// Output:
	// go ahead, 1 left
	// go ahead, 0 left
	// refused, try again in 6s
}
